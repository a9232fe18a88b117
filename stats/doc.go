// Package stats holds the statistics of an experiment on heads: numbers in, numbers out.
//
// Everything is float64 and pure. Nothing here knows what a head, a prompt or a model is, nothing is
// stored, and all randomness is a generator that the caller passes in, so a result can be recomputed
// from its seed.
//
// The questions it answers, and with what:
//
//   - "How often does the model succeed?"  [Wilson] and [ClopperPearson] intervals.
//   - "Did the edit change success on the same prompts?"  [McNemar], on the discordant pairs that
//     [Discordant] counts. It speaks about prompts only: it cannot tell whether other heads would have
//     done the same.
//   - "By how much?"  [PairedBootstrap], an interval of the mean difference that resamples prompts.
//   - "Would other heads have done the same?"  [HeadSetTest], which ranks the observed drop among the
//     drops of matched control sets. This is the test of a claim about heads.
//   - "Do two detectors agree?"  [Jaccard] of their sets and [Spearman] of their scores.
//
// Conventions. Wrong use by the program (lengths that differ, a level outside (0,1), a negative count)
// panics with the prefix "stats: ". What is undefined (an empty sample, a constant in a correlation, a NaN
// in the data) is NaN, never 0. A caller that has failed trials removes the pair before it asks: a failure
// is not a miss.
//
// A paired analysis of forty prompts:
//
//	b, c := stats.Discordant(baselineHit, knockedOutHit)
//	test := stats.McNemar(b, c)
//	diff := stats.PairedBootstrap(baseLogProb, editLogProb, stats.Resampling{N: 10000, Level: 0.95}, rng)
//
// The package imports none of the module's packages; harness joins it with heads and patch.
package stats
