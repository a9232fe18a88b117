package harness

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// CardRequest asks for one head's card.
type CardRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Head       decoder.Head
	Result     *Result     // a detection whose scores are shown; nil: one is made on Prompts
	Prompts    *PromptFile // that the head is shown on
	Show       int         // how many of them
	TopK       int         // keys listed for each
	Seed       uint64
}

// HeadCard is all that is known of one head.
type HeadCard struct {
	Schema   int          `json:"schema"`
	Model    string       `json:"model"`
	Head     decoder.Head `json:"head"`
	KVHead   int          `json:"kv_head"`
	Siblings heads.Set    `json:"siblings"` // query heads of the same key/value head
	Key      string       `json:"key"`      // of the result that the scores are from
	Path     string       `json:"path,omitempty"`

	Scores []CardScore `json:"scores"`
	Hits   *heads.Hits `json:"hits,omitempty"` // where its hits in the needle fall, of a head above the threshold
	Causal *CardScore  `json:"causal_map,omitempty"`
	Proven bool        `json:"causal_significant"` // its drop on the causal map's prompts is significantly above 0

	Planes   []CardPlane  `json:"planes"` // largest share first, a few of them; none where the layer does not rotate
	Distance CardDistance `json:"distance"`
	Looks    []CardLook   `json:"looks"`
}

// CardScore is the head under one detector.
type CardScore struct {
	Detector string   `json:"detector"`
	Score    Number   `json:"score"`
	Rank     int      `json:"rank"` // 1 + the number of heads with a larger score; 0 without a score
	Tied     int      `json:"tied"` // heads with the same score, this one included
	Of       int      `json:"of"`   // heads with a score
	Prompts  int      `json:"prompts"`
	Siblings []Number `json:"siblings"` // their scores
}

// CardDistance says how far back the head looks: of the last rows of the prompts shown, the first token left out.
type CardDistance struct {
	Rows   int    `json:"rows"`   // that were looked at
	First  Number `json:"first"`  // mean weight on the first token
	Own    Number `json:"own"`    // on the row's own token
	Mean   Number `json:"mean"`   // tokens between key and row, weighted
	Median Number `json:"median"` // half of the weight lies nearer
	Far    Number `json:"far"`    // share of the weight beyond a quarter of the row's position
}

// CardLook is what the head looks at from the last row of one prompt.
type CardLook struct {
	Prompt string      `json:"prompt"`
	Tokens int         `json:"tokens"`
	Keys   Number      `json:"keys"` // effective number
	Mass   []SpanMass  `json:"mass"`
	Top    []KeyWeight `json:"top"`
}

// distanceRows is how many of a prompt's last rows the distance is of.
const distanceRows = 32

// Check refuses what the model does not have, and a result of another model, before there are prompts.
func (r *CardRequest) Check() error {
	s := &r.Checkpoint.Spec
	if err := heads.NewSet(r.Head).Validate(s.Layers, s.Heads); err != nil {
		return err
	}
	if r.Show < 1 || r.TopK < 0 {
		return usagef("give at least one prompt", "%d prompts of %d keys", r.Show, r.TopK)
	}
	switch res := r.Result; {
	case res == nil:
	case res.Detection == nil:
		return &hintError{fmt.Errorf("%s: no detection", res.Path), "give a result of detect or study"}
	case res.Model.ConfigSHA256 != r.Checkpoint.ConfigSHA256:
		return &hintError{fmt.Errorf("%s: of another model: %s", res.Path, res.Model.Ref), "give a result of this model"}
	}
	return nil
}

// NewHeadCard collects it. Where no result is given, every detector but the causal one is run on the prompts that are shown.
func NewHeadCard(ctx context.Context, r *CardRequest) (*HeadCard, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	f := r.Prompts.Limit(r.Show)
	res := r.Result
	if res == nil {
		var names []string
		for _, d := range Detectors() {
			if d.Stage == StageObserve {
				names = append(names, d.Name)
			}
		}
		study, err := NewStudy(ctx, Options{
			Verb: "head", Stages: []string{StageDetect}, Detectors: names, Checkpoint: r.Checkpoint, Model: r.Model, Prompts: f,
			Threshold: 0.1, MaxNew: 16, Batch: 1, Seed: r.Seed,
		})
		if err != nil {
			return nil, err
		}
		if res, err = study.Run(ctx); err != nil {
			return nil, err
		}
	}
	c := cardOf(r, res)
	return c, c.look(ctx, r, f)
}

// cardOf takes from a result what it says of the head.
func cardOf(r *CardRequest, res *Result) *HeadCard {
	s, d := &r.Checkpoint.Spec, res.Detection
	group := s.Heads / s.KVHeads
	c := &HeadCard{Schema: schemaVersion, Model: r.Checkpoint.Ref, Head: r.Head, KVHead: r.Head.Index / group, Siblings: heads.Set{}, Key: res.Key, Path: res.Path,
		Scores: []CardScore{}, Planes: []CardPlane{}, Looks: []CardLook{}}
	for i := c.KVHead * group; i < (c.KVHead+1)*group; i++ {
		if i != r.Head.Index {
			c.Siblings = append(c.Siblings, decoder.Head{Layer: r.Head.Layer, Index: i})
		}
	}
	for i := range d.Scores {
		c.Scores = append(c.Scores, c.score(&d.Scores[i]))
	}
	for i := range d.Hits {
		if d.Hits[i].Head == r.Head {
			c.Hits = &d.Hits[i]
		}
	}
	if a := res.Agreement; a != nil {
		x := c.score(&a.Causal)
		c.Causal, c.Proven = &x, a.Significant.Contains(r.Head)
	}
	return c
}

func (c *HeadCard) score(s *heads.Scores) CardScore {
	v := s.At(c.Head)
	out := CardScore{Detector: s.Detector, Score: Number(v), Prompts: s.N, Siblings: []Number{}}
	for _, x := range s.Data {
		switch {
		case x != x:
			continue
		case x > v:
			out.Rank++
		case x == v:
			out.Tied++
		}
		out.Of++
	}
	if out.Rank++; v != v {
		out.Rank, out.Tied = 0, 0
	}
	for _, h := range c.Siblings {
		out.Siblings = append(out.Siblings, Number(s.At(h)))
	}
	return out
}

// look shows what the head attends to in the prompts.
func (c *HeadCard) look(ctx context.Context, r *CardRequest, f *PromptFile) error {
	var d distances
	planes := planeUse{head: c.Head, kv: c.KVHead}
	for i := range f.Specs {
		if f.Specs[i].Variant != "" {
			continue
		}
		p, err := promptPassageOf(r.Checkpoint, f, &f.Specs[i], false)
		if err != nil {
			return err
		}
		if err := planes.add(ctx, r.Model, p); err != nil {
			return err
		}
		var rows []int
		for row := max(1, p.T()-distanceRows); row < p.T(); row++ {
			rows = append(rows, row)
		}
		a := &AttendRequest{Checkpoint: r.Checkpoint, Model: r.Model, Passage: p, Heads: []decoder.Head{c.Head}, Rows: rows, TopK: r.TopK}
		seen, err := Attend(ctx, a)
		if err != nil {
			return err
		}
		for _, row := range seen.Rows {
			d.add(row.Weights)
		}
		last := seen.Rows[len(seen.Rows)-1]
		c.Looks = append(c.Looks, CardLook{f.Specs[i].ID, p.T(), last.Keys, last.Mass, last.Top})
	}
	c.Distance = d.card()
	var err error
	c.Planes, err = planes.card(r.Model.Spec)
	return err
}

// distances gathers weights by distance.
type distances struct {
	rows                  int
	first, own, mean, far float64
	weight                []float64 // by distance
	total                 float64
}

// add takes the visible weights of the row at position len(w)-1.
func (d *distances) add(w []float32) {
	row := len(w) - 1
	d.rows++
	d.first += float64(w[0])
	d.own += float64(w[row])
	for key := 1; key <= row; key++ {
		x, back := float64(w[key]), row-key
		for len(d.weight) <= back {
			d.weight = append(d.weight, 0)
		}
		d.weight[back] += x
		d.total += x
		d.mean += x * float64(back)
		if 4*back > row {
			d.far += x
		}
	}
}

func (d *distances) card() CardDistance {
	n := float64(d.rows)
	c := CardDistance{d.rows, Number(d.first / n), Number(d.own / n), Number(d.mean / d.total), nan, Number(d.far / d.total)}
	sum := 0.0
	for back, x := range d.weight {
		if sum += x; sum >= d.total/2 {
			c.Median = Number(back)
			break
		}
	}
	return c
}

// Write shows the card as text.
func (c *HeadCard) Write(w io.Writer) error {
	out := &printer{w: w}
	siblings := "no other head"
	if len(c.Siblings) > 0 {
		siblings = c.Siblings.String()
	}
	out.line("%s of %s: reads key/value head %d with %s", c.Head, lastPart(c.Model), c.KVHead, siblings)
	source := "prompts below"
	if c.Path != "" {
		source = c.Path
	}
	out.line("")
	out.line("scores, from %s", source)
	rows := [][]string{{"detector", "score", "rank", "of", "n", "siblings"}}
	add := func(s *CardScore, name string) {
		rank := "-"
		if s.Rank > 0 {
			rank = fmt.Sprint(s.Rank)
		}
		if s.Tied > 1 {
			rank += fmt.Sprintf(" (%d tie)", s.Tied)
		}
		var others []string
		for _, x := range s.Siblings {
			others = append(others, fixed(float64(x), 3))
		}
		rows = append(rows, []string{name, fixed(float64(s.Score), 3), rank, fmt.Sprint(s.Of), fmt.Sprint(s.Prompts), strings.Join(others, " ")})
	}
	for i := range c.Scores {
		add(&c.Scores[i], c.Scores[i].Detector)
	}
	if c.Causal != nil {
		add(c.Causal, "causal map")
	}
	out.grid(rows, false)
	if c.Hits != nil {
		out.line("hits in the needle: %d, of these %d on the code, %d on a repeated word, %d on the token before the code: %s", c.Hits.Total, c.Hits.Code, c.Hits.RepeatedWord, c.Hits.BeforeCode, c.Hits.Label)
	}
	if c.Causal != nil {
		out.line("its drop on the causal map's prompts is %s above 0 after Benjamini-Hochberg over all heads", map[bool]string{true: "significantly", false: "not significantly"}[c.Proven])
	}
	out.line("")
	out.line("%s", c.planesLine())
	d := c.Distance
	out.line("")
	out.line("attention of the last rows (%d): first token %s, own token %s; without the first token half of the weight lies within %s tokens, mean distance %s, %s beyond a quarter of the way back",
		d.Rows, fixed(float64(d.First), 2), fixed(float64(d.Own), 2), fixed(float64(d.Median), 0), fixed(float64(d.Mean), 1), fixed(float64(d.Far), 2))
	for _, l := range c.Looks {
		out.line("")
		var mass []string
		for _, m := range l.Mass {
			mass = append(mass, fmt.Sprintf("%s %s", m.Name, fixed(float64(m.Weight), 2)))
		}
		out.line("%s, last of %d rows: %s; %s effective keys", l.Prompt, l.Tokens, strings.Join(mass, ", "), fixed(math.Max(1, float64(l.Keys)), 1))
		for _, k := range l.Top {
			in := ""
			if len(k.In) > 0 {
				in = "  " + strings.Join(k.In, ", ")
			}
			out.line("  %s  row %d  %s%s", fixed(float64(k.Weight), 3), k.Row, k.Label, in)
		}
	}
	return out.err
}

// CardSchema is the JSON Schema of a [HeadCard].
func CardSchema() ([]byte, error) {
	return TypeSchema("headscope head, schema 1", "What head prints: one head's card. An undefined number is null.", HeadCard{})
}
