package harness

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// maxShown is how many rows of attention are shown at once, heads times rows.
const maxShown = 256

// AttendRequest asks what heads look at.
type AttendRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Passage    *Passage
	Edits      []decoder.Edit
	Heads      []decoder.Head
	Rows       []int
	TopK       int // keys listed for each row
}

// Attended is what heads look at over one passage.
type Attended struct {
	Model  string         `json:"model"`
	DType  string         `json:"dtype"`
	Device string         `json:"device"`
	Source PassageSource  `json:"source"`
	Edits  []decoder.Edit `json:"edits"`
	Tokens []Token        `json:"tokens"`
	Spans  []NamedSpan    `json:"spans"`
	Rows   []AttendedRow  `json:"rows"` // by head, then by row, as asked
}

// AttendedRow is one head's attention at one row.
type AttendedRow struct {
	Head    decoder.Head `json:"head"`
	Row     int          `json:"row"`
	Weights floats       `json:"weights"` // of the keys 0..Row, after the softmax; sum to 1
	Top     []KeyWeight  `json:"top"`     // the largest, ties by position
	Mass    []SpanMass   `json:"mass"`    // on the first token, on each span, on the row's own token
	Keys    Number       `json:"keys"`    // effective number of keys: e to the entropy of the weights in nats
}

// KeyWeight is one key of a row.
type KeyWeight struct {
	Row    int      `json:"row"`
	Weight Number   `json:"weight"`
	Label  string   `json:"label"`
	In     []string `json:"in,omitempty"` // spans that it lies in
}

// SpanMass is the weight on a range of keys; keys after the row have none.
type SpanMass struct {
	Name   string `json:"name"`
	Weight Number `json:"weight"`
}

// Attend computes the attention rows of some heads.
func Attend(ctx context.Context, r *AttendRequest) (*Attended, error) {
	s, p := &r.Checkpoint.Spec, r.Passage
	if err := heads.NewSet(r.Heads...).Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	if n := len(r.Heads) * len(r.Rows); n == 0 || n > maxShown {
		return nil, usagef("ask for fewer heads or rows; `headscope dump` writes whole arrays", "%d heads at %d rows, want 1 to %d pictures", len(r.Heads), len(r.Rows), maxShown)
	}
	if r.TopK < 0 {
		return nil, usagef("0 lists none", "top-k %d", r.TopK)
	}
	if err := p.CheckEdits(s, r.Edits); err != nil {
		return nil, err
	}
	weights, err := r.weights(ctx)
	if err != nil {
		return nil, err
	}
	out := &Attended{
		Model: r.Checkpoint.Ref, DType: r.Model.DType(), Device: r.Model.Backend().Device, Source: p.Source,
		Edits: append([]decoder.Edit{}, r.Edits...), Tokens: p.Tokens, Spans: append([]NamedSpan{}, p.Spans...),
	}
	for i, h := range r.Heads {
		for j, row := range r.Rows {
			a, err := p.attended(weights[i][j], r.TopK)
			if err != nil {
				return nil, err
			}
			a.Head, a.Row = h, row
			out.Rows = append(out.Rows, *a)
		}
	}
	return out, nil
}

// weights returns the visible weights by head and row.
func (r *AttendRequest) weights(ctx context.Context) ([][][]float32, error) {
	t := r.Passage.T()
	out := make([][][]float32, len(r.Heads))
	for _, pass := range attentionPasses(&r.Checkpoint.Spec, t, r.Rows, traceBytes) {
		tr, err := r.Model.Trace(ctx, r.Passage.ask(), r.Edits, decoder.TraceOptions{Attention: pass.rows, Hidden: -1})
		if err != nil {
			return nil, err
		}
		for i, h := range r.Heads {
			for j := range pass.n {
				from := (h.Index*len(pass.rows) + j) * t
				out[i] = append(out[i], slices.Clone(tr.Attention[h.Layer][from:from+pass.rows[j]+1]))
			}
		}
	}
	return out, nil
}

// attended sums up one row's weights.
func (p *Passage) attended(w []float32, k int) (*AttendedRow, error) {
	a := &AttendedRow{Weights: w, Top: []KeyWeight{}}
	order := make([]int, len(w))
	entropy := 0.0
	for i, x := range w {
		order[i] = i
		if x > 0 {
			entropy -= float64(x) * math.Log(float64(x))
		}
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, errNotFinite("the attention weights are")
		}
	}
	a.Keys = Number(math.Exp(entropy))
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(w[y], w[x]) })
	for _, i := range order[:min(k, len(order))] {
		a.Top = append(a.Top, KeyWeight{i, Number(w[i]), p.Tokens[i].Label(), p.spansAt(i)})
	}
	mass := func(name string, s heads.Span) {
		sum := 0.0
		for i := s[0]; i < min(s[1], len(w)); i++ {
			sum += float64(w[i])
		}
		a.Mass = append(a.Mass, SpanMass{name, Number(sum)})
	}
	mass("first token", heads.Span{0, 1})
	for _, s := range p.Spans {
		mass(s.Name, s.Rows)
	}
	mass("own token", heads.Span{len(w) - 1, len(w)})
	return a, nil
}

// spansAt names the spans that a row lies in.
func (p *Passage) spansAt(row int) []string {
	var out []string
	for _, s := range p.Spans {
		if s.Rows.Contains(row) {
			out = append(out, s.Name)
		}
	}
	return out
}
