package loader

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// hfCase is what transformers made of a configuration; testdata/make/hf_configs.py says how.
type hfCase struct {
	Config     json.RawMessage
	Error      string
	Tensors    map[string][]int // of layer 0 and outside the layers
	Windows    []*int
	Tables     map[string][]float64 // "kind@length": factor on cosine and sine, then the frequencies
	Rotates    []int
	Tied       bool
	Eps        float64
	Scaling    float64
	Activation string
	KVHeads    int `json:"kv_heads"`
}

// refusals are what this module refuses and transformers takes, by what the error says. In all of them transformers overlooks a value that is there.
var refusals = map[string]int{
	`rope_scaling.rope_type: got nothing`:                                            8, // default frequencies, the factor beside it lost
	`rope_parameters.factor: got 2.0, which is not supported`:                        1, // the same
	`hidden_act: got "gelu_pytorch_tanh", which is not supported, want what hidden_`: 1, // Gemma-2 and -3 read hidden_activation
	`hidden_act: got "silu", which is not supported, want what hidden_activation`:    2,
	`rope_scaling.rope_type: got "spiral"`:                                           1, // of full layers, of which the model has none
	`rope_scaling.factor: got nothing`:                                               2, // the same
	`rope_parameters.original_max_position_embeddings: got 12, which is not supp`:    1, // Phi-3 takes that of the root
}

// lenient are configurations that transformers fails on, by its error, and whose meaning is beyond doubt: a null for a key that the class does not
// have, and a null window without a layer that would use it.
var lenient = map[string]int{
	"TypeError: unsupported operand type(s) for ** or pow(): 'NoneType' and 'float'":         11,
	"ValueError: Could not find a `sliding_window` argument in the config, or it is not set": 1,
}

// Whatever a config says, this module computes what transformers does or refuses.
func TestConfigsAgainstTransformers(t *testing.T) {
	data, err := os.ReadFile("testdata/hf_configs.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []hfCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	read, both := 0, 0
	gotRefused, gotLenient := map[string]int{}, map[string]int{}
	for i, c := range cases {
		s, err := ParseConfig(c.Config, nil)
		switch {
		case c.Error != "" && err == nil:
			gotLenient[c.Error]++
			if lenient[c.Error] == 0 {
				t.Errorf("case %d: %s\n read, and transformers says %s", i, c.Config, c.Error)
			}
		case c.Error != "":
			both++
		case err != nil:
			key := ""
			for k := range refusals {
				if strings.Contains(err.Error(), k) {
					key = k
				}
			}
			if gotRefused[key]++; key == "" {
				t.Errorf("case %d: %s\n %v", i, c.Config, err)
			}
		default:
			read++
			if diff := c.compare(&s); diff != "" {
				t.Errorf("case %d: %s\n %s", i, c.Config, diff)
			}
		}
	}
	if !maps.Equal(gotRefused, refusals) || !maps.Equal(gotLenient, lenient) {
		t.Errorf("refused here alone: got %v, want %v\nread here alone: got %v, want %v", gotRefused, refusals, gotLenient, lenient)
	}
	t.Logf("%d configurations: %d read alike, %d refused by both", len(cases), read, both)
	if read < 550 {
		t.Errorf("got %d configurations that both read, want 550 at least", read)
	}
}

// compare returns the first difference.
func (c *hfCase) compare(s *Spec) string {
	for _, v := range []struct {
		name      string
		got, want any
	}{
		{"tied", s.Tied, c.Tied}, {"epsilon", s.NormEps, c.Eps}, {"key/value heads", s.KVHeads, c.KVHeads},
		{"activation", s.Activation, map[string]Activation{"SiLUActivation": SiLU, "SiLU": SiLU, "GELUActivation": GELU, "GELUTanh": GELUTanh}[c.Activation]},
	} {
		if v.got != v.want {
			return fmt.Sprintf("%s: got %v, want %v (%s)", v.name, v.got, v.want, c.Activation)
		}
	}
	if math.Abs(s.ScoreScale-c.Scaling) > 1e-12*c.Scaling {
		return fmt.Sprintf("scale of scores: got %v, want %v", s.ScoreScale, c.Scaling)
	}
	claims, err := s.claims()
	if err != nil {
		return err.Error()
	}
	found := 0
	for _, t := range claims {
		want, ok := c.Tensors[t.name]
		if strings.Contains(t.name, ".layers.") && !strings.Contains(t.name, ".layers.0.") {
			continue
		}
		if !ok || !slices.Equal(want, t.shape) {
			return fmt.Sprintf("%s: got shape %v, want %v (there: %v)", t.name, t.shape, want, ok)
		}
		found++
	}
	if found != len(c.Tensors) {
		return fmt.Sprintf("got %d tensors, want %d", found, len(c.Tensors))
	}
	return c.compareLayers(s)
}

func (c *hfCase) compareLayers(s *Spec) string {
	for l, k := range s.Kinds {
		want := 0
		if w := c.Windows[l]; w != nil {
			want = *w
		}
		if k.Window != want || (k.Table != Unrotated) != (c.Rotates[l] == 1) {
			return fmt.Sprintf("layer %d: got %+v, want window %d, rotates %d", l, k, want, c.Rotates[l])
		}
		if k.Table == Unrotated {
			continue
		}
		for name, table := range c.Tables {
			var length int
			kind, at, _ := strings.Cut(name, "@")
			if _, err := fmt.Sscan(at, &length); err != nil {
				return err.Error()
			}
			if kind == fullAttention && want != 0 || kind == slidingAttention && want == 0 {
				continue
			}
			got, err := rope.New(s.Tables[k.Table], s.HeadDim, length)
			if err != nil {
				return err.Error()
			}
			if diff := math.Abs(got.Scale - table[0]); diff > 1e-6 || got.Planes() != len(table)-1 {
				return fmt.Sprintf("layer %d: %s: got factor %v, %d planes, want %v, %d", l, name, got.Scale, got.Planes(), table[0], len(table)-1)
			}
			for i, w := range got.InvFreq {
				if math.Abs(w-table[i+1]) > 1e-6*table[i+1] {
					return fmt.Sprintf("layer %d: %s: plane %d: got %v, want %v", l, name, i, w, table[i+1])
				}
			}
		}
	}
	return ""
}
