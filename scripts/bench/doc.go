// Command bench measures what the engine saves, as ratios within one run: contenders take turns, so that a machine that slows down
// slows both. docs/benchmarks.md says what each section means and has the figures of one machine.
//
//	scripts/bench.sh --quick               # minutes; the whole takes longer
//	scripts/bench.sh --only a --dtype float32
//
// A section is one file: prefill.go (a), rows.go (b), duel.go (c, d) with study.go and peers.go, memory.go (e), shapes.go (f). Timing and
// ratios are in measure.go, the table and results/bench.json in report.go. The yardstick of section a is the package baseline.
//
// Place in the map: above everything; nothing imports it.
package main
