package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// bench is a run: what was asked for and what has been found.
type bench struct {
	ctx     context.Context
	ckpt    *loader.Checkpoint
	prompts []*harness.Prompt
	o       options
	report  report
	backend map[string]*decoder.Backend
	peer    *peer
	duels   map[string]*duel // by dtype, shared by sections c, d and e
}

type options struct {
	model, prompts, out, only, dtypes, devices, plugin, child string
	quick                                                     bool
	n, sets, rounds, layers                                   int
}

// section is a letter of the table.
type section struct {
	letter, title string
	run           func(*bench) error
}

func sections() []section {
	return []section{
		{"a", "prefill against the block prototype", (*bench).prefill},
		{"b", "rows over a kept cache", (*bench).rowPrograms},
		{"c", "detect and knock out on all rows against the Python peer", (*bench).allRows},
		{"d", "knock out on question rows", (*bench).questionRows},
		{"e", "peak memory", (*bench).memory},
		{"f", "difference between program shapes", (*bench).shapes},
		{"g", "99 control sets on question rows against 5 conditions on all", (*bench).sweep},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		fmt.Fprintln(os.Stderr, "hint:", h.Hint())
	}
	os.Exit(1)
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.model, "model", filepath.Join(decoder.CacheDir(), "models", "SmolLM2-135M-Instruct"), "checkpoint to measure on")
	flag.StringVar(&o.prompts, "prompts", harness.BuiltinPrompts, "prompt file")
	flag.StringVar(&o.out, "out", filepath.Join("results", "bench.json"), "where the figures go as JSON")
	flag.StringVar(&o.only, "only", "", "sections to run, e.g. a,b; default all")
	flag.StringVar(&o.dtypes, "dtype", "float32,bfloat16", "dtypes to measure")
	flag.StringVar(&o.devices, "device", "cpu,go", "backends of section a; the others run on the first")
	flag.StringVar(&o.plugin, "plugin", "", "PJRT plugin; default as in headscope")
	flag.BoolVar(&o.quick, "quick", false, "fewer shapes, prompts and rounds")
	flag.IntVar(&o.n, "n", 0, "prompts of sections c, d, e; default 5, quick 2")
	flag.IntVar(&o.sets, "sets", 3, "random head sets of section c")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of a measurement; default by section")
	flag.IntVar(&o.layers, "layers", 0, "layers that run in section a; default all, on the Go backend 4")
	flag.StringVar(&o.child, "child", "", "")
	flag.Parse()
	if o.n == 0 {
		o.n = o.pick(5, 2)
	}
	return o
}

// pick chooses between the full and the quick value.
func (o *options) pick(full, quick int) int {
	if o.quick {
		return quick
	}
	return full
}

// round is the number of rounds: as asked, or the section's own.
func (o *options) round(full, quick int) int {
	if o.rounds > 0 {
		return o.rounds
	}
	return o.pick(full, quick)
}

func run(ctx context.Context) error {
	o := parseFlags()
	chosen, err := chosenSections(o.only)
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, o: o, backend: map[string]*decoder.Backend{}, duels: map[string]*duel{}}
	if b.ckpt, err = loader.Open(o.model); err != nil {
		return fmt.Errorf("%w (`make model` writes the demo model)", err)
	}
	defer b.ckpt.Close()
	file, err := harness.ReadPrompts(o.prompts)
	if err != nil {
		return err
	}
	if b.prompts, err = file.Tokenize(&b.ckpt.Spec, b.ckpt.Tokenizer, maxNew); err != nil {
		return err
	}
	if o.child != "" {
		return b.runChild()
	}
	if b.peer, err = findPeer(); err != nil {
		return err
	}
	be, err := b.open(b.devices()[0])
	if err != nil {
		return err
	}
	b.report = report{
		Model: filepath.Base(o.model), Prompts: file.Source, Quick: o.quick, Plugin: be.About, CPU: cpuName(),
		Environment: harness.CurrentEnvironment(be), Tool: harness.CurrentTool(),
	}
	for _, s := range chosen {
		fmt.Fprintf(os.Stderr, "bench: section %s: %s\n", s.letter, s.title)
		if err := s.run(b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.report.add(figure{Section: s.letter, What: s.title, Failed: err.Error()})
		}
	}
	if err := b.report.print(os.Stdout); err != nil {
		return err
	}
	if err := b.report.write(o.out); err != nil {
		return err
	}
	if b.report.broken() {
		return errors.New("a measurement could not run")
	}
	return nil
}

func chosenSections(only string) ([]section, error) {
	all := sections()
	if only == "" {
		return all, nil
	}
	var out []section
	for _, letter := range strings.Split(only, ",") {
		found := false
		for _, s := range all {
			if s.letter == letter {
				out, found = append(out, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("--only %s: want letters a to f joined by commas", only)
		}
	}
	return out, nil
}

// chose tells whether a section was asked for.
func (b *bench) chose(letter string) bool {
	return b.o.only == "" || slices.Contains(strings.Split(b.o.only, ","), letter)
}

func (b *bench) devices() []string   { return strings.Split(b.o.devices, ",") }
func (b *bench) dtypeList() []string { return strings.Split(b.o.dtypes, ",") }

func (b *bench) open(device string) (*decoder.Backend, error) {
	if be := b.backend[device]; be != nil {
		return be, nil
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: device, Plugin: b.o.plugin})
	if err != nil {
		return nil, err
	}
	b.backend[device] = be
	return be, nil
}

// withModel runs f on a model of the first device.
func (b *bench) withModel(dtype string, f func(m *decoder.Model) error) error {
	be, err := b.open(b.devices()[0])
	if err != nil {
		return err
	}
	m, err := decoder.New(be, b.ckpt, decoder.Options{DType: dtype})
	if err != nil {
		return err
	}
	return errors.Join(f(m), m.Close())
}

func cpuName() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	name := "unknown CPU"
	for _, line := range strings.Split(string(data), "\n") {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			name = strings.TrimSpace(value)
		case "flags":
			for _, f := range []string{"amx_bf16", "avx512_bf16", "avx512f", "avx2"} {
				if strings.Contains(value+" ", " "+f+" ") {
					return name + ", " + f
				}
			}
			return name
		}
	}
	return name
}
