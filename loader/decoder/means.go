package decoder

import (
	"context"
	"fmt"
	"slices"
)

// RowClass sorts a prompt's rows, and those of its answer, by what stands there. From 0 on it is the answer's token of that number:
// row T+j, which holds token j of the answer.
type RowClass int

// The classes of the prompt's rows; the last row is of its own class wherever it stands.
const (
	ClassHaystack RowClass = -4 + iota
	ClassNeedle
	ClassQuestion
	ClassLast
)

// String is the class's name.
func (c RowClass) String() string {
	if c >= 0 {
		return fmt.Sprintf("answer%d", int(c))
	}
	return [...]string{"haystack", "needle", "question", "last"}[c-ClassHaystack]
}

// classOf is the class of row r.
func (p *Prompt) classOf(r int) RowClass {
	switch t := p.scopeLength(); {
	case r >= t:
		return RowClass(r - t)
	case r == t-1:
		return ClassLast
	case r >= p.Needle[0] && r < p.Needle[1]:
		return ClassNeedle
	case p.Question > 0 && r >= p.Question:
		return ClassQuestion
	}
	return ClassHaystack
}

// Means are the mean outputs of heads over the rows of each class: of the slice of the output projection's input that is the head's. An
// edit of OpMean puts them in.
type Means struct {
	Classes []RowClass         // in rising order
	Heads   map[Head][]float32 // [classes, headDim]
}

// of is a head's mean for a class. Rows after the answers that were looked at have the last token's.
func (m *Means) of(h Head, c RowClass, headDim int) ([]float32, error) {
	rows, ok := m.Heads[h]
	if !ok {
		return nil, fmt.Errorf("there is no mean of head %s", h)
	}
	if last := m.Classes[len(m.Classes)-1]; last >= 0 && c > last {
		c = last
	}
	i, ok := slices.BinarySearch(m.Classes, c)
	if !ok {
		return nil, fmt.Errorf("there is no mean over rows of class %s", c)
	}
	return rows[i*headDim:][:headDim], nil
}

// meanBytes bounds what is on the host at a time while means are computed; a pass hands out as many rows as fit.
const meanBytes = 1 << 30

// HeadMeans runs the unmodified model on the prompts, each with its answer, and returns for each of the sets, lists of places in prompts, the
// mean output of each head by row class, every row of the set's prompts counting once. A prompt runs once, in however many sets it is.
// Prompts need Needle and, for their question's class, Question. Sums are float64, in the order of prompts.
func (m *Model) HeadMeans(ctx context.Context, prompts []*Prompt, hs []Head, sets [][]int) ([]*Means, error) {
	for _, h := range hs {
		if h.Layer < 0 || h.Layer >= m.Spec.Layers || h.Index < 0 || h.Index >= m.Spec.Heads {
			return nil, fmt.Errorf("head %s does not exist", h)
		}
	}
	sums := make([]classSums, len(sets))
	for i := range sums {
		sums[i] = classSums{d: m.cfg.headDim, n: map[RowClass]int{}, of: map[Head]map[RowClass][]float64{}}
	}
	for at, p := range prompts {
		var in []*classSums
		for i := range sets {
			if slices.Contains(sets[i], at) {
				in = append(in, &sums[i])
			}
		}
		if len(in) == 0 {
			continue
		}
		if err := m.addMeans(ctx, p, hs, in); err != nil {
			return nil, err
		}
	}
	out := make([]*Means, len(sets))
	for i := range sums {
		out[i] = sums[i].means(hs)
	}
	return out, nil
}

func (m *Model) addMeans(ctx context.Context, p *Prompt, hs []Head, in []*classSums) error {
	width := m.cfg.heads * m.cfg.headDim
	rows := make([]int, len(p.IDs)+len(p.Answer))
	for r := range rows {
		rows[r] = r
		for _, sums := range in {
			sums.n[p.classOf(r)]++
		}
	}
	for part := range slices.Chunk(rows, max(1, meanBytes/(4*width*m.Spec.Layers))) {
		tr, err := m.Trace(ctx, &Prompt{IDs: p.IDs, Answer: p.Answer}, nil, TraceOptions{Hidden: -1, Heads: part})
		if err != nil {
			return err
		}
		for i, r := range part {
			for _, h := range hs {
				for _, sums := range in {
					sums.add(h, p.classOf(r), tr.Heads[h.Layer][i*width+h.Index*m.cfg.headDim:])
				}
			}
		}
	}
	return nil
}

// classSums are sums of head outputs by row class, and how many rows each class has.
type classSums struct {
	d  int
	n  map[RowClass]int
	of map[Head]map[RowClass][]float64
}

func (s *classSums) add(h Head, c RowClass, z []float32) {
	if s.of[h] == nil {
		s.of[h] = map[RowClass][]float64{}
	}
	if s.of[h][c] == nil {
		s.of[h][c] = make([]float64, s.d)
	}
	for i := range s.d {
		s.of[h][c][i] += float64(z[i])
	}
}

func (s *classSums) means(hs []Head) *Means {
	out := &Means{Heads: map[Head][]float32{}}
	for c := range s.n {
		out.Classes = append(out.Classes, c)
	}
	slices.Sort(out.Classes)
	for _, h := range hs {
		rows := make([]float32, 0, len(out.Classes)*s.d)
		for _, c := range out.Classes {
			for _, x := range s.of[h][c] {
				rows = append(rows, float32(x/float64(s.n[c])))
			}
		}
		out.Heads[h] = rows
	}
	return out
}

// fillMeans hands the means to the heads of a condition that put them out: a vector for each row up to the answer's last, which stands
// for all later ones.
func (m *Model) fillMeans(p *Prompt, c *condition) error {
	for _, g := range c.givenHeads() {
		if g.kind != givenMean {
			continue
		}
		if p.Means == nil {
			return fmt.Errorf("edit mean: there are no means to put in")
		}
		end := p.scopeLength() + max(1, len(p.Answer))
		if last := p.Means.Classes[len(p.Means.Classes)-1]; last >= 0 {
			end = max(end, p.scopeLength()+int(last)+1)
		}
		g.first, g.vectors = int32(g.from), nil
		for r := g.from; r < max(g.from+1, min(g.to, end)); r++ {
			mean, err := p.Means.of(Head{Layer: g.layer, Index: g.head}, p.classOf(r), m.cfg.headDim)
			if err != nil {
				return fmt.Errorf("edit mean: row %d: %w", r, err)
			}
			g.vectors = append(g.vectors, mean...)
		}
	}
	return nil
}
