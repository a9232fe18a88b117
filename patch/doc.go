// Package patch builds interventions and the controls that an intervention is compared with.
//
// An intervention is data: one or more decoder.Edit values that name what to do, to which heads, and at which
// rows. The constructors here only spell them from head sets; nothing runs. The command line's spelling of an
// edit is read by decoder.ParseEdit.
//
// An effect of switching heads off means little until other heads of the same layers have been switched off
// too. [LayerPool] collects the heads that may serve as controls and [MatchedSets] draws sets from them, each
// with as many heads in every layer as the target, all distinct:
//
//	pool := patch.LayerPool(argmax, 0.1, copying.AtLeast(0.1))
//	sets, report, err := patch.MatchedSets(pool, retrieval, 19, rand.New(rand.NewPCG(seed, 1)))
//	for _, set := range sets {
//		run(patch.ZeroHeads(set, decoder.ScopeAll))
//	}
//
// Too small a pool is an error that names the layers, never fewer controls in silence. The drops of the
// control sets go to stats.HeadSetTest. For edits of keys or values, which act on whole KV groups, take the
// groups of the target out of the pool first: pool.Minus(target.KVSiblings(group)).
//
// The package stands on heads and loader/decoder; harness runs what it builds.
package patch
