package heads

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// ErrNoSuchHead is wrapped by the error for a head that the model does not have.
var ErrNoSuchHead = errors.New("no such head")

// Set is a set of query heads: sorted by layer, then index, without repeats. Build one with [NewSet],
// [Parse] or by decoding JSON ([[layer, head], ...]); the methods rely on the order. Nil is the empty set.
type Set []decoder.Head

// NewSet returns the set of the given heads, in any order; repeats count once.
func NewSet(hs ...decoder.Head) Set {
	s := Set(slices.Clone(hs))
	slices.SortFunc(s, compare)
	return slices.Compact(s)
}

func compare(a, b decoder.Head) int {
	switch {
	case a.Less(b):
		return -1
	case b.Less(a):
		return 1
	}
	return 0
}

// Contains reports whether h is in the set.
func (s Set) Contains(h decoder.Head) bool {
	_, ok := slices.BinarySearchFunc(s, h, compare)
	return ok
}

// Equal reports whether both sets hold the same heads.
func (s Set) Equal(o Set) bool { return slices.Equal(s, o) }

// Union returns the heads in s or in o.
func (s Set) Union(o Set) Set { return NewSet(append(slices.Clone(s), o...)...) }

// Intersect returns the heads in both s and o.
func (s Set) Intersect(o Set) Set { return s.filter(o.Contains) }

// Xor returns the heads that are in one of s and o alone.
func (s Set) Xor(o Set) Set { return s.Minus(o).Union(o.Minus(s)) }

// Minus returns the heads of s that are not in o.
func (s Set) Minus(o Set) Set { return s.filter(func(h decoder.Head) bool { return !o.Contains(h) }) }

func (s Set) filter(keep func(decoder.Head) bool) Set {
	out := Set{}
	for _, h := range s {
		if keep(h) {
			out = append(out, h)
		}
	}
	return out
}

// Layers returns the layers that hold a head of the set, ascending.
func (s Set) Layers() []int {
	var out []int
	for _, h := range s {
		if len(out) == 0 || out[len(out)-1] != h.Layer {
			out = append(out, h.Layer)
		}
	}
	return out
}

// ByLayer returns the heads of each layer that has any, as subsets of s.
func (s Set) ByLayer() map[int]Set {
	out := map[int]Set{}
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j].Layer == s[i].Layer {
			j++
		}
		out[s[i].Layer] = s[i:j:j]
		i = j
	}
	return out
}

// KVSiblings returns every query head that shares a KV head with a head of s, s itself included, for a model
// with group query heads to a KV head (1 = no sharing). Edits of keys or values act on all of them.
// It panics if group < 1.
func (s Set) KVSiblings(group int) Set {
	mustGroup(group)
	var out []decoder.Head
	for _, h := range s {
		first := h.Index - h.Index%group
		for i := first; i < first+group; i++ {
			out = append(out, decoder.Head{Layer: h.Layer, Index: i})
		}
	}
	return NewSet(out...)
}

// Validate returns an error that wraps [ErrNoSuchHead] and names the heads which a model of the given number
// of layers and query heads does not have.
func (s Set) Validate(layers, heads int) error {
	missing := s.filter(func(h decoder.Head) bool {
		return h.Layer < 0 || h.Layer >= layers || h.Index < 0 || h.Index >= heads
	})
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; the model has %d layers (from 0) of %d heads (from 0)", ErrNoSuchHead, missing, layers, heads)
}

const none = "none"

// String returns "L1H2,L3H4", or "none" for the empty set; [Parse] reads it back.
func (s Set) String() string { return join(s) }

func join(hs []decoder.Head) string {
	if len(hs) == 0 {
		return none
	}
	names := make([]string, len(hs))
	for i, h := range hs {
		names[i] = h.String()
	}
	return strings.Join(names, ",")
}

// MarshalJSON writes [[layer, head], ...], and [] for the empty set.
func (s Set) MarshalJSON() ([]byte, error) { return marshalHeads(s) }

// UnmarshalJSON reads a list of heads in any order and in any form that decoder.Head reads. A head that is
// listed twice is an error: such a list was not meant as it stands.
func (s *Set) UnmarshalJSON(b []byte) error {
	var list Ranking
	if err := list.UnmarshalJSON(b); err != nil {
		return err
	}
	*s = list.Set()
	return nil
}

func marshalHeads(hs []decoder.Head) ([]byte, error) {
	if hs == nil {
		hs = []decoder.Head{}
	}
	return json.Marshal(hs)
}
