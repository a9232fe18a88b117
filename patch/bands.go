package patch

import (
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Band applies op, one of zero_planes, freeze and legacy, to a band of planes of the heads: a name of rope.ParseBand, resolved against each
// layer's own table. Like all constructors here it returns no edit at all for an empty set.
func Band(set heads.Set, op decoder.Op, band string, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: op, Band: band, Scope: scope})
}

// ZeroDims takes single dimensions out of the heads' queries, after any norm and before rotation.
func ZeroDims(set heads.Set, dims []int, scope decoder.Scope) []decoder.Edit {
	if len(dims) == 0 {
		return nil
	}
	return edit(set, decoder.Edit{Op: decoder.OpZeroDims, Dims: slices.Clone(dims), Scope: scope})
}

// LegacyPlanes takes planes out of the outputs of q_proj and k_proj, before any norm: the published form. All query heads of a KV group see
// the changed key; [heads.Set.KVSiblings] lists them.
func LegacyPlanes(set heads.Set, planes []int, scope decoder.Scope) []decoder.Edit {
	if len(planes) == 0 {
		return nil
	}
	return edit(set, decoder.Edit{Op: decoder.OpLegacy, Planes: slices.Clone(planes), Scope: scope})
}

// Mirror makes the given planes of the heads turn the wrong way round: a key n rows back is seen as if it stood n rows ahead. Content and the
// size of every plane's term stay, the offset is wrong. invFreq is the table of the heads' layers, [planes], radians a row.
func Mirror(set heads.Set, invFreq []float64, planes []int, scope decoder.Scope) []decoder.Edit {
	if len(planes) == 0 {
		return nil
	}
	table := slices.Clone(invFreq)
	for _, p := range planes {
		table[p] = -table[p]
	}
	return edit(set, decoder.Edit{Op: decoder.OpSwap, Table: "mirror", InvFreq: table, Scope: scope})
}
