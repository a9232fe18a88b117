// Package heads names, scores and ranks the query heads of a model.
//
// Three types carry a detection from the probes to an experiment:
//
//   - [Observations]: what the attention probes saw. For each prompt, and for each query row that was
//     looked at, the arg max, its lead over the runner-up and the mass on the needle, of every head.
//   - [Scores]: one number a head. A detector is a pure function Observations -> Scores.
//   - [Set]: heads without order, sorted and unique; [Ranking]: heads in order of score.
//
// The detectors are named apart because they disagree, and a result reports them together:
//
//	argmax_last  the last prompt row's arg max lies in the needle           (retrieval-head profiles)
//	argmax_code  the last prompt row's arg max lies in the code itself
//	mass_last    the last prompt row's attention mass on the needle
//	copy_tf      with the answer fed in, each row's arg max is the very token to copy next
//
// A head can reach a high argmax_last without copying anything: where the prompt ends in a word that the
// needle holds too, duplicate-token heads point at that word. [Observations.Hits] says where a head's
// hits fall and labels it.
//
//	obs, err := heads.NewObservations(spec.Layers, spec.Heads, seen)
//	...
//	argmax, mass := obs.ArgmaxLast(), obs.MassLast()
//	retrieval := argmax.AtLeast(0.1)            // the set, inclusive
//	best := argmax.Ranking(mass).Top(10)        // the ten best, ties broken by mass
//	tied := argmax.TiesAt(10)                   // heads that only the tie-breaker told apart
//	err = argmax.Heatmap(os.Stdout, heads.HeatmapOptions{Marked: retrieval})
//
// Other people's lists are a [Document], which [ReadDocument] makes of a file in any of the formats and [Encode] writes: published profiles,
// head scores of Wu et al., QRHead's lists, DuoAttention's gates (of key/value heads), labels, pairs, our results. [CompareSets] and
// [CompareScores] say how far two of them agree; [Set.LayerProfile], [Set.KVProfile] and [Scores.Concentration] what one looks like;
// [Set.KVHeads], [Scores.KVMax] and [Scores.KVMean] go from query heads to the key/value heads that they read.
//
// The package runs no model. It stands on loader/decoder's value type Head and on stats; patch builds edits and control
// sets from its sets, and harness joins everything.
package heads
