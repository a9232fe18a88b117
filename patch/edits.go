package patch

import (
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// ZeroHeads switches the heads off at the rows of scope: their slice of the output projection's input is 0
// (knock-out). Like all constructors here it returns no edit at all for an empty set, which is the identity.
func ZeroHeads(set heads.Set, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpZero, Scope: scope})
}

// ScaleHeads multiplies that slice by gain: 1 is the identity, 0 the same as [ZeroHeads].
func ScaleHeads(set heads.Set, gain float64, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpScale, Value: gain, Scope: scope})
}

// UniformHeads makes the heads attend alike to every visible key. It is the masking of Wu et al. (2024),
// who apply it at decoder.ScopeAnswer and call it switching the head off; the head still writes the mean value.
func UniformHeads(set heads.Set, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpUniform, Scope: scope})
}

// Temperature divides the heads' attention scores by t: above 1 flatter, below 1 sharper, 1 the identity.
func Temperature(set heads.Set, t float64, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpTemperature, Value: t, Scope: scope})
}

// LengthScale multiplies the heads' scores at a row that has n keys up to it, its own included, by max(0, 1 + gain ln(n/length)) where
// n > length, and leaves earlier rows as they are. A gain of 1/ln(length) is log-length attention, ln(n)/ln(length).
func LengthScale(set heads.Set, gain float64, length int, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpLengthScale, Value: gain, Length: length, Scope: scope})
}

// KeepSpread rescales the heads' scores row by row to the standard deviation over visible keys that they have in the same run without edits
// of the query's planes: beside [ZeroPlanes] the sharpness is restored, the content is not. Alone it is the identity.
func KeepSpread(set heads.Set, scope decoder.Scope) []decoder.Edit {
	return edit(set, decoder.Edit{Op: decoder.OpKeepSpread, Scope: scope})
}

// ZeroPlanes takes the given rotary planes, both members each, out of the heads' queries (after bias, before
// rotation), which removes exactly these planes' terms from the heads' scores and touches no sibling.
// Planes are numbers of the checkpoint's pairing. No planes is the identity.
func ZeroPlanes(set heads.Set, planes []int, scope decoder.Scope) []decoder.Edit {
	if len(planes) == 0 {
		return nil
	}
	return edit(set, decoder.Edit{Op: decoder.OpZeroPlanes, Planes: slices.Clone(planes), Scope: scope})
}

// ScalePlanes multiplies those planes of the queries by gain.
func ScalePlanes(set heads.Set, planes []int, gain float64, scope decoder.Scope) []decoder.Edit {
	if len(planes) == 0 {
		return nil
	}
	return edit(set, decoder.Edit{Op: decoder.OpScalePlanes, Planes: slices.Clone(planes), Value: gain, Scope: scope})
}

func edit(set heads.Set, e decoder.Edit) []decoder.Edit {
	if len(set) == 0 {
		return nil
	}
	e.Heads = slices.Clone(set)
	return []decoder.Edit{e}
}
