package harness

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
)

var numberForm = regexp.MustCompile(`^(-?\d{1,9})(?:-(-?\d{1,9}))?$`)

// parseNumber reads one item of a list, "7", "5-7" or, from the end, "-1" and "-8--1", as numbers 0..n-1.
func parseNumber(what, item string, n int) ([]int, error) {
	advice := fmt.Sprintf("the form is 0,5-7,-1 (ranges with both ends, negative numbers from the end); %ss are 0-%d here", what, n-1)
	m := numberForm.FindStringSubmatch(item)
	if m == nil {
		return nil, usagef(advice, "%s %q", what, item)
	}
	ends := [2]int{}
	for i, s := range m[1:] {
		if s == "" {
			ends[i] = ends[0]
			continue
		}
		v, err := strconv.Atoi(s)
		if err != nil {
			return nil, usagef(advice, "%s %q", what, item)
		}
		if strings.HasPrefix(s, "-") {
			v += n
		}
		if v < 0 || v >= n {
			return nil, usagef(advice, "%s %s does not exist", what, s)
		}
		ends[i] = v
	}
	if ends[1] < ends[0] {
		return nil, usagef(advice, "%s %q: the range is empty", what, item)
	}
	out := make([]int, 0, ends[1]-ends[0]+1)
	for v := ends[0]; v <= ends[1]; v++ {
		out = append(out, v)
	}
	return out, nil
}

// parseNumbers reads a comma list of such items, "all" among them, into increasing numbers without repeats. name gives those that a
// word stands for and may be nil.
func parseNumbers(what, list string, n int, name func(string) ([]int, bool)) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "all" {
			item = fmt.Sprintf("0-%d", n-1)
		}
		if name != nil {
			if v, ok := name(item); ok {
				out = append(out, v...)
				continue
			}
		}
		v, err := parseNumber(what, item, n)
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Rows reads a list of rows: numbers and ranges such as "0,5-7,-1", "all", "last" (the last row of the text, the fed answer apart), and
// the names of spans, such as "needle".
func (p *Passage) Rows(list string) ([]int, error) {
	return parseNumbers("row", list, p.T(), func(word string) ([]int, bool) {
		if word == "last" {
			return []int{len(p.IDs) - 1}, true
		}
		for _, s := range p.Spans {
			if s.Name != word {
				continue
			}
			var out []int
			for r := s.Rows[0]; r < s.Rows[1]; r++ {
				out = append(out, r)
			}
			return out, true
		}
		return nil, false
	})
}

// HeadChoice is layers, in order, and heads of each.
type HeadChoice struct {
	Layers []int
	Heads  map[int][]int // by layer, increasing
}

// ChooseHeads reads the layers, such as "0,5-7,-1", and the heads: numbers that count in each of these layers, or heads by name, such as
// L18H6,L20H3, which bring their own layers. An empty list stands for all.
func ChooseHeads(s *loader.Spec, layers, list string) (*HeadChoice, error) {
	c := &HeadChoice{Heads: map[int][]int{}}
	if list != "" && strings.ContainsAny(list, "LlHh[") && !strings.Contains(list, "all") {
		if layers != "" {
			return nil, usagef("leave --layers out, or give the heads as numbers, which then count in each layer", "layers beside heads by name: %s", list)
		}
		set, err := heads.Parse(list)
		if err != nil {
			return nil, &UsageError{err, headListAdvice}
		}
		if err := set.Validate(s.Layers, s.Heads); err != nil {
			return nil, err
		}
		c.Layers = set.Layers()
		for _, h := range set {
			c.Heads[h.Layer] = append(c.Heads[h.Layer], h.Index)
		}
		return c, nil
	}
	var err error
	if c.Layers, err = parseNumbers("layer", orAll(layers), s.Layers, nil); err != nil {
		return nil, err
	}
	numbers, err := parseNumbers("head", orAll(list), s.Heads, nil)
	if err != nil {
		return nil, err
	}
	for _, l := range c.Layers {
		c.Heads[l] = numbers
	}
	return c, nil
}

func orAll(list string) string {
	if list == "" {
		return "all"
	}
	return list
}

// kvHeads are the key/value heads that the query heads read.
func kvHeads(s *loader.Spec, query []int) []int {
	var out []int
	for _, h := range query {
		out = append(out, h/s.Group())
	}
	return slices.Compact(out)
}

// product multiplies sizes and stops at the largest int.
func product(n ...int) int64 {
	p := int64(1)
	for _, v := range n {
		if v > 0 && p > math.MaxInt64/int64(v) {
			return math.MaxInt64
		}
		p *= int64(v)
	}
	return p
}
