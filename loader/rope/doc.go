// Package rope builds the frequency tables of rotary position encoding and orders their planes.
//
// A rotated head is a set of planes, pairs of dimensions. Plane i of the query at position p is turned by p*w_i, and so is the key's,
// so the score of the pair depends on the distance alone. A [Table] holds those w_i ("inverse frequencies" in transformers), slow or
// fast as they come, and the factor that some methods put on cosine and sine.
//
//	t, err := rope.New(rope.Config{Type: "default", Theta: 10000}, 128, 4096)
//	cos, sin := t.CosSin(512, rope.Float32Angles) // [512, 64] each
//	band, err := rope.ParseBand("slow16")         // eight planes, sixteen dimensions
//	planes, err := band.Planes(t)                 // 56 to 63
//	rule, err := rope.ParseRule("moebius2048")    // another table of the same size
//	other, err := rule.Apply(t)
//	c := other.Kernel(512)                        // mean cosine 512 tokens apart
//
// A [Rule] is a table by name and a [Band] is planes by name; edits, files and the command line share their two grammars. A [File] is a table
// by its numbers. A [Layout] turns planes into dimensions of a head.
//
// [Types] lists the methods that New knows, all of transformers' and as its version 5.24.0 has them (yarn and longrope differ between
// versions); of two of them, the table depends on the length of the pass, which
// [Config.VariesBeyond] tells.
//
// Everything is float64 and pure; only [Table.CosSin] rounds, and says how. A plane index says nothing about which dimensions the
// plane has: that is the checkpoint's pairing, (i, i+R/2) for all families read as Hugging Face stores them, unless a family says
// otherwise.
//
// The package is at the bottom of the map: it imports nothing of this module. loader fills a [Config] from config.json,
// loader/decoder uploads what CosSin returns.
package rope
