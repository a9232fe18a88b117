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
//     [Discordant] counts; [SignFlip] for numbers. They speak about prompts only: they cannot tell whether
//     other heads would have done the same.
//   - "By how much?"  [PairedBootstrap] and [Bootstrap] (percentile and BCa), which resample prompts;
//     [ClusterBootstrap], which resamples layers; [CohenD], [LayerDemeanedD], [CompareRanks].
//   - "Would other heads have done the same?"  [HeadSetTest], which ranks the observed drop among the
//     drops of matched control sets. This is the test of a claim about heads. [CompareHeadSets] puts
//     McNemar's test and an interval over prompts and control sets beside it.
//   - "Do labelled heads have other values?"  [PermuteLayers], centred on its null mean, [PermuteGroups] for
//     key/value groups, [PermuteClusters] for whole layers; [SpearmanByLayer].
//   - "Do two arms differ, or spread differently?"  [Welch], [MeanDifference]; [LogVarianceRatio],
//     [BrownForsythe], [Levene], [FlignerKilleen], [OBrien], [Bartlett], [FTest].
//   - "Do two detectors agree, and would they again?"  [Jaccard] of their sets, [Spearman] and [Kendall] of
//     their scores; [TestRetest], [SplitHalf].
//   - "Is there no effect, and could it have been seen?"  [EquivalentMeans], [EquivalentProportions];
//     [DetectableMean], [DetectableLoss].
//   - "Of how many tests?"  [Holm], [BenjaminiHochberg].
//
// Conventions. Wrong use by the program (lengths that differ, a level outside (0,1), a negative count)
// panics with the prefix "stats: ". What is undefined (an empty sample, a constant in a correlation, a NaN
// in the data) is a [Value] without a number but with an [Undefined] reason, never NaN and never 0. The plain
// helpers [Mean], [SD] and [Quantile] and the ends of an [Interval] are NaN there; an Interval has its reason
// beside them. A caller that has failed trials removes the pair before
// it asks: a failure is not a miss.
//
// Permutation tests enumerate up to [MaxExact] arrangements and sample beyond; [Draws] in the result says
// which, with the generator and its seed. Ties count as extreme. Sums add up in numpy's order.
//
// A paired analysis of forty prompts:
//
//	b, c := stats.Discordant(baselineHit, knockedOutHit)
//	test := stats.McNemar(b, c)
//	diff := stats.PairedBootstrap(baseLogProb, editLogProb, stats.Resampling{N: 10000, Level: 0.95}, rng)
//
// The package imports none of the module's packages; harness joins it with heads and patch.
package stats
