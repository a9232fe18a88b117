// Package loadertest makes small checkpoints for tests and computes any checkpoint in plain float64.
//
// [Reference.Forward] is the page to read first: a decoder of any family from token ids to logits, in the order the data flows, with the
// two gains that most experiments are made of, one on a head's output and one on a plane of its query. It has no batching, no cache and no
// compiler; loader/decoder is held against it, and it is held against transformers' numbers in loader/testdata/parity. attention.go goes
// into the heads, rotation.go turns them, algebra.go has the sums.
//
//	o := loadertest.Options{Family: "Qwen3ForCausalLM", KVHeads: 2, Seed: 1}
//	c := loadertest.Open(t, o) // written to t.TempDir()
//	ref, err := loadertest.NewReference(c)
//	trace, err := ref.Forward([]int32{5, 9, 2}, loadertest.Gains{
//		Head: func(layer, head, row int) float64 { // without head L1H3
//			if layer == 1 && head == 3 {
//				return 0
//			}
//			return 1
//		},
//	})
//
// In the map it stands beside loader, which it uses; only tests use it.
package loadertest
