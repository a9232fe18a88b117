package heads

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/headscope/headscope/loader/decoder"
)

// Scores holds one number for each query head.
type Scores struct {
	Detector string    // its name: argmax_last, mass_last, ...
	Layers   int       // L
	Heads    int       // H, query heads of a layer
	Data     []float64 // [L*H], row-major: Data[layer*H + head]; NaN where a head has no score
	N        int       // observations behind each score: prompts, or answer tokens for copy_tf
}

// NewScores returns scores of the given shape, all 0. It panics if a dimension is negative.
func NewScores(detector string, layers, heads int) Scores {
	return Scores{Detector: detector, Layers: layers, Heads: heads, Data: make([]float64, layers*heads)}
}

// At returns the score of h. It panics if the model has no such head.
func (s Scores) At(h decoder.Head) float64 {
	if h.Layer < 0 || h.Layer >= s.Layers || h.Index < 0 || h.Index >= s.Heads {
		panic(fmt.Sprintf("heads: %s: no head %s in %d layers of %d heads", s.Detector, h, s.Layers, s.Heads))
	}
	return s.Data[h.Layer*s.Heads+h.Index]
}

func (s Scores) head(i int) decoder.Head { return decoder.Head{Layer: i / s.Heads, Index: i % s.Heads} }

func (s Scores) mustMatch(o Scores) {
	if o.Layers != s.Layers || o.Heads != s.Heads || len(o.Data) != s.Layers*s.Heads {
		panic(fmt.Sprintf("heads: %s is [%d, %d] with %d values, want [%d, %d] as %s",
			o.Detector, o.Layers, o.Heads, len(o.Data), s.Layers, s.Heads, s.Detector))
	}
}

type scoresJSON struct {
	Detector string       `json:"detector"`
	Shape    []int        `json:"shape"`
	N        int          `json:"n"`
	Data     [][]*float64 `json:"data"`
}

// MarshalJSON writes {"detector", "shape": [layers, heads], "n", "data": [[...], ...]}, a row a layer, null
// where a head has no score.
func (s Scores) MarshalJSON() ([]byte, error) {
	if len(s.Data) != s.Layers*s.Heads {
		return nil, fmt.Errorf("scores %s: %d values for shape [%d, %d]", s.Detector, len(s.Data), s.Layers, s.Heads)
	}
	return json.Marshal(scoresJSON{s.Detector, []int{s.Layers, s.Heads}, s.N, s.rows()})
}

// rows are the scores as JSON has them: a row a layer, nil where a head has no score.
func (s Scores) rows() [][]*float64 {
	out := make([][]*float64, s.Layers)
	for l := range out {
		out[l] = make([]*float64, s.Heads)
		for h := range out[l] {
			if v := s.Data[l*s.Heads+h]; !math.IsNaN(v) {
				out[l][h] = &v
			}
		}
	}
	return out
}

// UnmarshalJSON reads what [Scores.MarshalJSON] writes and checks every row against the shape.
func (s *Scores) UnmarshalJSON(b []byte) error {
	var in scoresJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("scores: %w", err)
	}
	if len(in.Shape) != 2 || in.Shape[0] < 0 || in.Shape[1] < 0 {
		return fmt.Errorf("scores %s: shape: got %v, want [layers, heads]", in.Detector, in.Shape)
	}
	if in.N < 0 {
		return fmt.Errorf("scores %s: n: got %d, want a count", in.Detector, in.N)
	}
	layers, heads := in.Shape[0], in.Shape[1]
	if len(in.Data) != layers {
		return fmt.Errorf("scores %s: got %d rows, want %d", in.Detector, len(in.Data), layers)
	}
	out := Scores{Detector: in.Detector, Layers: layers, Heads: heads, N: in.N}
	for l, row := range in.Data {
		if len(row) != heads {
			return fmt.Errorf("scores %s: layer %d: got %d heads, want %d", in.Detector, l, len(row), heads)
		}
		for _, v := range row {
			if v == nil {
				out.Data = append(out.Data, math.NaN())
			} else {
				out.Data = append(out.Data, *v)
			}
		}
	}
	*s = out
	return nil
}
