// Package headlists puts lists of heads side by side: results of ours, other people's files, and what the weights alone say.
//
//   - [Compare]: two files of any format that package heads reads, or the detectors of one. A [Comparison] has a [Pair] for each two
//     detectors: Jaccard of the sets with what chance gives, Spearman of the scores, over query heads and over key/value heads, with
//     intervals from whole layers drawn anew, and what lies past a tolerance.
//   - [WeightNorms]: L1 norms of the query projection a head, read layer by layer, with bias and norm scales or without, and a set of
//     heads tested against the others: [Norms].
//   - [Export]: a list in another tool's format.
//
// A comparison of two published profiles:
//
//	c, err := headlists.Compare([]string{"qwen25_7b_seed42.json", "qwen25_7b_seed123.json"}, headlists.CompareOptions{})
//	...
//	err = c.Write(os.Stdout)
//
// It stands on heads (formats, sets), stats (every statistic) and loader (weights as views); harness tells it the build and the machine
// and stores its documents. No model is run.
package headlists
