// Package replicate computes the numbers of published retrieval-head profiles again, from the matrices, lists, counts and accuracies that
// the same files hold, and says where a stored number differs and what a reader has to know of the protocol.
//
// A file is recognised by its keys: profile, coverage, utility, behavior, inheritance, reliability, prediction, knockout sweep. Each kind
// has a function that computes its items; a [Report] has one [FileReport] a file with every [Item], the numbers that cannot be computed
// again and why, and the [Fault] list.
//
//	r, err := replicate.Run(ctx, []string{"published-profiles"})
//	...
//	err = r.Write(os.Stdout, false)   // a line a file, the disagreements, the faults
//
// It stands on heads, which reads the files' head lists, and on stats, which has every statistic; harness tells it the build and the
// machine. No model is run.
package replicate
