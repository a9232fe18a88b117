package heads

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// wuThreshold is from which mean score on Wu et al. call a head a retrieval head (arXiv 2404.15574).
const wuThreshold = 0.1

var wuKey = regexp.MustCompile(`^\d+-\d+$`)

// decodeObject tells JSON objects apart by their keys.
func decodeObject(b []byte) (*Document, error) {
	var doc map[string]json.RawMessage
	if err := DecodeJSON(b, &doc); err != nil {
		return nil, err
	}
	has := func(key string) bool { _, ok := doc[key]; return ok }
	switch {
	case len(doc) == 0:
		return nil, errors.New("got an object without keys")
	case has("argmax_scores") || has("argmax_heads"):
		return decodeProfile(b)
	case has("heads") || has("scores"):
		return decodeResult(b, doc)
	}
	for key := range doc {
		if !wuKey.MatchString(key) {
			return nil, fmt.Errorf(`got an object with the key %q; want a result, a profile (argmax_scores), or head scores {"L-H": [...]}`, key)
		}
	}
	return decodeWu(b)
}

// scoreTable is a matrix of scores, a row a layer; null is no score.
type scoreTable [][]*float64

func (m scoreTable) scores(detector string, layers, heads int) (*Scores, error) {
	if len(m) != layers {
		return nil, fmt.Errorf("got %d layers, want %d", len(m), layers)
	}
	s := NewScores(detector, layers, heads)
	for l, row := range m {
		if len(row) != heads {
			return nil, fmt.Errorf("layer %d: got %d heads, want %d", l, len(row), heads)
		}
		for h, v := range row {
			s.Data[l*heads+h] = math.NaN()
			if v != nil {
				s.Data[l*heads+h] = *v
			}
		}
	}
	return &s, nil
}

// profileJSON is the part of a published profile that is about heads.
type profileJSON struct {
	Model   string `json:"model"`
	N       int    `json:"n_samples"`
	Layers  int    `json:"n_layers"`
	Heads   int    `json:"n_heads"`
	KVHeads int    `json:"n_kv_heads"`

	ArgmaxHeads  Ranking    `json:"argmax_heads"`
	CopyHeads    Ranking    `json:"copy_heads"`
	ArgmaxScores scoreTable `json:"argmax_scores"`
	CopyScores   scoreTable `json:"copy_scores"`

	Profile *struct {
		Threshold float64 `json:"threshold"`
	} `json:"profile,omitempty"`
}

// decodeProfile reads a published profile. Its lists are in order of layers; here they are in order of score.
func decodeProfile(b []byte) (*Document, error) {
	var p profileJSON
	if err := DecodeJSON(b, &p); err != nil {
		return nil, err
	}
	if p.Layers < 1 || p.Heads < 1 || p.KVHeads < 0 || p.KVHeads > 0 && p.Heads%p.KVHeads != 0 {
		return nil, fmt.Errorf("n_layers, n_heads, n_kv_heads: got %d, %d, %d, want a model's", p.Layers, p.Heads, p.KVHeads)
	}
	d := &Document{Format: FormatProfile, Model: p.Model, Shape: Shape{p.Layers, p.Heads, p.KVHeads}}
	if p.Profile != nil {
		d.Threshold = p.Profile.Threshold
	}
	for _, x := range []struct {
		key, detector string
		list          Ranking
		scores        scoreTable
		n             int
	}{{"argmax", "argmax_last", p.ArgmaxHeads, p.ArgmaxScores, p.N}, {"copy", "copy_tf", p.CopyHeads, p.CopyScores, 0}} {
		if x.list == nil && x.scores == nil {
			continue
		}
		if err := x.list.Set().Validate(p.Layers, p.Heads); err != nil {
			return nil, fmt.Errorf("%s_heads: %w", x.key, err)
		}
		y := Detected{Detector: x.detector, Heads: x.list}
		if x.scores != nil {
			s, err := x.scores.scores(x.detector, p.Layers, p.Heads)
			if err != nil {
				return nil, fmt.Errorf("%s_scores: %w", x.key, err)
			}
			s.N = x.n
			y.Scores = s
			if x.list != nil {
				y.Heads, y.Ordered = s.Ranking().Only(x.list.Set()), true
			}
		}
		d.Detectors = append(d.Detectors, y)
	}
	return d, d.check()
}

// resultJSON is the part of our results that is about heads.
type resultJSON struct {
	Model struct {
		Ref     string `json:"ref"`
		Layers  int    `json:"layers"`
		Heads   int    `json:"heads"`
		KVHeads int    `json:"kv_heads"`
	} `json:"model"`
	Detection *struct {
		Threshold float64  `json:"threshold"`
		Scores    []Scores `json:"scores"`
	} `json:"detection"`
}

// decodeResult reads a result of ours, or any object with heads under "heads" or scores under "scores".
func decodeResult(b []byte, doc map[string]json.RawMessage) (*Document, error) {
	var r resultJSON
	if err := DecodeJSON(b, &r); err != nil {
		return nil, err
	}
	var list []Scores
	if raw, ok := doc["scores"]; ok {
		var one Scores
		if err := json.Unmarshal(raw, &list); err == nil {
			// several
		} else if err := json.Unmarshal(raw, &one); err == nil {
			list = []Scores{one}
		} else {
			return nil, fmt.Errorf(`key "scores": %w`, err)
		}
	}
	d := &Document{Format: FormatResult, Model: r.Model.Ref, Shape: Shape{r.Model.Layers, r.Model.Heads, r.Model.KVHeads}}
	if r.Detection != nil {
		d.Threshold = r.Detection.Threshold
		list = r.Detection.Scores
	}
	main := Detected{Detector: "listed", Ordered: true}
	if raw, ok := doc["heads"]; ok {
		if err := json.Unmarshal(raw, &main.Heads); err != nil {
			return nil, fmt.Errorf(`key "heads": %w`, err)
		}
	}
	if d.Shape.Layers == 0 && len(list) > 0 {
		d.Shape.Layers, d.Shape.Heads = list[0].Layers, list[0].Heads
	}
	for i := range list {
		x := Detected{Detector: list[i].Detector, Scores: &list[i]}
		switch {
		case r.Detection == nil:
		case x.Detector == "argmax_last": // what the threshold is about
			x.Heads, x.Ordered, main.Heads = main.Heads, true, nil
		case d.Threshold > 0 && (x.Detector == "argmax_code" || x.Detector == "copy_tf"): // shares too
			x.Heads, x.Ordered = list[i].Ranking().Only(list[i].AtLeast(d.Threshold)), true
		}
		d.Detectors = append(d.Detectors, x)
	}
	if main.Heads != nil {
		d.Detectors = append([]Detected{main}, d.Detectors...)
	}
	if len(d.Detectors) == 0 {
		return nil, errors.New(`got no heads and no scores`)
	}
	return d, d.check()
}

// decodeWu reads {"L-H": [...]}: every head of the model, each with as many trials.
func decodeWu(b []byte) (*Document, error) {
	var doc map[string][]float64
	if err := DecodeJSON(b, &doc); err != nil {
		return nil, err
	}
	var list Ranking
	of := make(map[decoder.Head][]float64, len(doc))
	for key, x := range doc {
		h, err := decoder.ParseHead(key)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
		of[h] = x
	}
	slices.SortFunc(list, compare)
	if err := noRepeats(list); err != nil {
		return nil, err
	}
	layers, heads, whole := list.extent()
	if !whole {
		return nil, fmt.Errorf("got %d heads up to layer %d and head %d, want every head of every layer", len(list), layers-1, heads-1)
	}
	s := NewScores("wu_step", layers, heads)
	trials := make([][]float64, len(list))
	for i, h := range list {
		trials[i] = of[h]
	}
	s.N = len(trials[0])
	for i, x := range trials {
		if len(x) != s.N {
			return nil, fmt.Errorf("key %q: got %d trials, want %d as the first head has", wuName(list[i]), len(x), s.N)
		}
		for _, v := range x {
			s.Data[i] += v
		}
		s.Data[i] /= float64(s.N)
	}
	if s.N == 0 {
		return nil, errors.New("got no trials: no answer passed when the file was made")
	}
	d := &Document{Format: FormatWu, Shape: Shape{Layers: layers, Heads: heads}, Threshold: wuThreshold}
	d.Detectors = []Detected{{Detector: "wu_step", Heads: s.Ranking().Only(s.AtLeast(wuThreshold)), Ordered: true, Scores: &s, Trials: trials}}
	return d, d.check()
}

func wuName(h decoder.Head) string { return fmt.Sprintf("%d-%d", h.Layer, h.Index) }

// scoredHead is ["L-H", score].
type scoredHead struct {
	head  decoder.Head
	score float64
}

// UnmarshalJSON reads ["13-4", 3.25].
func (s *scoredHead) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf(`got %s, want ["L-H", score]`, b)
	}
	if err := s.head.UnmarshalJSON(pair[0]); err != nil {
		return err
	}
	var x *float64
	if err := json.Unmarshal(pair[1], &x); err != nil || x == nil {
		return fmt.Errorf("head %s: got score %s, want a number", s.head, pair[1])
	}
	s.score = *x
	return nil
}

// decodeScoredList reads [["L-H", score], ...], best first. Only where every head of every layer is listed are there scores of all heads.
func decodeScoredList(b []byte) (*Document, error) {
	var list []scoredHead
	if err := DecodeJSON(b, &list); err != nil {
		return nil, err
	}
	x := Detected{Detector: "qr", Ordered: true}
	slices.SortStableFunc(list, func(a, b scoredHead) int { return cmp.Compare(b.score, a.score) })
	for _, s := range list {
		x.Heads = append(x.Heads, s.head)
	}
	if err := noRepeats(x.Heads); err != nil {
		return nil, err
	}
	d := &Document{Format: FormatQRHead}
	if layers, heads, whole := x.Heads.extent(); whole {
		all := NewScores("qr", layers, heads)
		for _, s := range list {
			all.Data[s.head.Layer*heads+s.head.Index] = s.score
		}
		x.Heads, x.Scores, d.Shape = nil, &all, Shape{Layers: layers, Heads: heads}
	}
	d.Detectors = []Detected{x}
	return d, d.check()
}
