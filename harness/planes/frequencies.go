package planes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// BandReach is how many planes on either side of the dominant one its band has.
const BandReach = 2

// FrequencyRequest asks which planes heads use.
type FrequencyRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Prompts    *harness.PromptFile
	Heads      []decoder.Head // nil: all
	Command    []string
	Done       func(prompt, of int) // nil: nobody asks
}

// Frequencies says, head by head, how large queries and keys are in each plane: the product bounds the plane's share of a score
// (Cauchy-Schwarz). Chunk norms: Barbero et al. 2410.06205, section 4.
type Frequencies struct {
	harness.Header
	Asked     FrequencyAsked `json:"asked"`
	Tokens    int            `json:"tokens"`           // rows that the means are over
	Tables    []PlaneTable   `json:"tables"`           // that heads turn by
	Unrotated []int          `json:"unrotated_layers"` // left out: no plane turns
	Heads     []PlaneProfile `json:"heads"`            // by layer and head
	Seconds   float64        `json:"seconds"`
}

// FrequencyAsked is what was asked for.
type FrequencyAsked struct {
	Heads []decoder.Head `json:"heads"` // none: all
}

// PlaneTable is a frequency table. Learned and swapped ones need not fall from plane to plane: Order does.
type PlaneTable struct {
	Layers     []int            `json:"layers"`
	InvFreq    []float64        `json:"inv_freq"`   // [planes], radians a token
	Wavelength []harness.Number `json:"wavelength"` // tokens a turn; null where the plane does not turn
	Order      []int            `json:"order"`      // planes from the fastest to the slowest, ties by number
}

// PlaneProfile is one head's use of its planes; lists are [planes], by number.
type PlaneProfile struct {
	Head    decoder.Head `json:"head"`
	Table   int          `json:"table"`   // of Frequencies.Tables
	Q       []float64    `json:"q"`       // mean over rows of the norm of the plane's two dimensions, after bias and norm, before rotation
	K       []float64    `json:"k"`       // of the key that the head reads
	Product []float64    `json:"product"` // q times k
	Profile []float64    `json:"profile"` // product over its sum

	RestQ float64 `json:"rest_q"` // the same of the dimensions that do not rotate; 0 where all do
	RestK float64 `json:"rest_k"`

	Dominant   *int           `json:"dominant"`  // plane with the largest product, the faster one of two; null where every product is 0
	Frequency  harness.Number `json:"frequency"` // its; null without one
	Wavelength harness.Number `json:"wavelength"`
	BandMass   harness.Number `json:"band_mass"`        // profile of the dominant plane and BandReach planes on either side, in the order of frequencies; null without one
	Reason     string         `json:"reason,omitempty"` // why there is no dominant plane
}

// MeasureFrequencies runs the prompts and averages over all their rows: a pass a prompt, of which a few numbers a head are kept.
func MeasureFrequencies(ctx context.Context, r *FrequencyRequest) (*Frequencies, error) {
	start := time.Now()
	s := &r.Checkpoint.Spec
	if err := heads.NewSet(r.Heads...).Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	file := r.Prompts.WithNeedle()
	prompts, err := file.Tokenize(s, r.Checkpoint.Tokenizer, 0)
	if err != nil {
		return nil, err
	}
	f := &Frequencies{Asked: FrequencyAsked{append([]decoder.Head{}, r.Heads...)}, Unrotated: []int{}}
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p.IDs))
	}
	byLayer, err := f.tables(s, longest)
	if err != nil {
		return nil, err
	}
	var planes int
	if planes, err = f.choose(s, r.Heads, byLayer); err != nil {
		return nil, err
	}
	h, err := harness.NewHeader(ctx, &harness.HeaderRequest{
		Kind: "frequencies", Checkpoint: r.Checkpoint, Model: r.Model, Prompts: file, Command: r.Command,
		Asked: f.decides(),
	})
	if err != nil {
		return nil, err
	}
	f.Header = *h
	for i, p := range prompts {
		tr, err := r.Model.Trace(ctx, &decoder.Prompt{IDs: p.IDs}, nil, decoder.TraceOptions{Hidden: -1, Norms: true})
		if err != nil {
			return nil, fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
		}
		f.Tokens += len(p.IDs)
		for k := range f.Heads {
			f.Heads[k].add(tr, s.Group(), planes, float64(len(p.IDs)))
		}
		if r.Done != nil {
			r.Done(i+1, len(prompts))
		}
	}
	for k := range f.Heads {
		f.Heads[k].finish(&f.Tables[f.Heads[k].Table], float64(f.Tokens))
	}
	f.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
	return f, nil
}

// decides is what beside model and prompts decides the numbers.
func (f *Frequencies) decides() any {
	var asked []decoder.Head // null where all are asked for
	if len(f.Asked.Heads) > 0 {
		asked = f.Asked.Heads
	}
	return struct {
		Heads  []decoder.Head
		Tables []PlaneTable
	}{asked, f.Tables}
}

// tables lists the model's tables in passes of so many tokens and returns which one each layer turns by, -1 = none.
func (f *Frequencies) tables(s *loader.Spec, tokens int) ([]int, error) {
	byLayer := make([]int, s.Layers)
	for l := range byLayer {
		t, err := decoder.RopeTable(s, l, tokens)
		if err != nil {
			return nil, err
		}
		if t == nil {
			byLayer[l] = -1
			f.Unrotated = append(f.Unrotated, l)
			continue
		}
		byLayer[l] = slices.IndexFunc(f.Tables, func(have PlaneTable) bool { return slices.Equal(have.InvFreq, t.InvFreq) })
		if byLayer[l] < 0 {
			byLayer[l] = len(f.Tables)
			f.Tables = append(f.Tables, planeTable(t))
		}
		f.Tables[byLayer[l]].Layers = append(f.Tables[byLayer[l]].Layers, l)
	}
	return byLayer, nil
}

func planeTable(t *rope.Table) PlaneTable {
	p := PlaneTable{InvFreq: t.InvFreq}
	for i, w := range t.InvFreq {
		p.Wavelength = append(p.Wavelength, wavelength(w))
		p.Order = append(p.Order, i)
	}
	slices.SortStableFunc(p.Order, func(a, b int) int { return cmp.Compare(t.InvFreq[b], t.InvFreq[a]) })
	return p
}

// wavelength is tokens a turn; a plane that does not turn has none.
func wavelength(w float64) harness.Number {
	if w == 0 {
		return harness.Number(math.NaN())
	}
	return harness.Number(2 * math.Pi / w)
}

// choose lists the heads that turn, those asked for or all, with room for their planes.
func (f *Frequencies) choose(s *loader.Spec, asked []decoder.Head, byLayer []int) (int, error) {
	if len(f.Tables) == 0 {
		return 0, &harness.UsageError{Err: fmt.Errorf("no layer of the model rotates"), Advice: "`headscope inspect MODEL` prints its layers"}
	}
	planes := len(f.Tables[0].InvFreq)
	if asked == nil {
		for l := range s.Layers {
			for h := range s.Heads {
				asked = append(asked, decoder.Head{Layer: l, Index: h})
			}
		}
	} else {
		asked = heads.NewSet(asked...)
	}
	for _, h := range asked {
		if t := byLayer[h.Layer]; t >= 0 {
			f.Heads = append(f.Heads, PlaneProfile{Head: h, Table: t, Q: make([]float64, planes), K: make([]float64, planes)})
		}
	}
	if len(f.Heads) == 0 {
		return 0, &harness.UsageError{Err: fmt.Errorf("none of these heads is in a layer that rotates: layers %v do not", f.Unrotated), Advice: "name heads of other layers"}
	}
	return planes, nil
}

// add takes one prompt's means, weighted with its rows.
func (p *PlaneProfile) add(tr *decoder.Trace, group, planes int, rows float64) {
	n := tr.Norms[p.Head.Layer]
	q, k := n.Q[p.Head.Index*(planes+1):], n.K[p.Head.Index/group*(planes+1):]
	for i := range planes {
		p.Q[i] += rows * float64(q[i])
		p.K[i] += rows * float64(k[i])
	}
	p.RestQ += rows * float64(q[planes])
	p.RestK += rows * float64(k[planes])
}

// finish turns sums over rows into means.
func (p *PlaneProfile) finish(t *PlaneTable, rows float64) {
	p.RestQ, p.RestK = p.RestQ/rows, p.RestK/rows
	for i := range p.Q {
		p.Q[i], p.K[i] = p.Q[i]/rows, p.K[i]/rows
	}
	p.use(t)
}

// use says what the means make of the planes.
func (p *PlaneProfile) use(t *PlaneTable) {
	sum := 0.0
	p.Product, p.Profile, p.BandMass = make([]float64, len(p.Q)), make([]float64, len(p.Q)), 0
	for i := range p.Q {
		p.Product[i] = p.Q[i] * p.K[i]
		sum += p.Product[i]
	}
	for i, x := range p.Product {
		if sum > 0 { // else the head's queries or keys are 0, and so is its profile
			p.Profile[i] = x / sum
		}
	}
	if sum == 0 {
		nan := harness.Number(math.NaN())
		p.Frequency, p.Wavelength, p.BandMass, p.Reason = nan, nan, nan, "queries or keys are 0 in every plane"
		return
	}
	at := 0
	for place, i := range t.Order {
		if p.Product[i] > p.Product[t.Order[at]] {
			at = place
		}
	}
	dominant := t.Order[at]
	p.Dominant, p.Frequency, p.Wavelength = &dominant, harness.Number(t.InvFreq[dominant]), t.Wavelength[dominant]
	for _, i := range t.Order[max(0, at-BandReach):min(len(t.Order), at+BandReach+1)] {
		p.BandMass += harness.Number(p.Profile[i])
	}
}
