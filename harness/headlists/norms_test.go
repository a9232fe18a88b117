package headlists

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

var parity = filepath.Join("..", "..", "loader", "testdata", "parity")

// tensor reads a tensor by its stored name; nil where there is none.
func tensor(t *testing.T, c *loader.Checkpoint, name string) []float32 {
	t.Helper()
	info, ok := c.Weights.Info(name)
	if !ok {
		return nil
	}
	b, err := c.Weights.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(b)*8/info.DType.Bits())
	if err := safetensors.DecodeFloat32(out, b, info.DType); err != nil {
		t.Fatal(err)
	}
	return out
}

// queryRows finds the rows of the query projection by the names that the families give their tensors, without the spec's views.
func queryRows(t *testing.T, c *loader.Checkpoint, layer int) (rows [][]float32, bias []float32) {
	t.Helper()
	s := &c.Spec
	n := s.Heads * s.HeadDim
	cut := func(w []float32, begin int) { rows = append(rows, w[begin*s.Hidden:][:s.Hidden]) }
	for _, prefix := range []string{"model.layers.", "language_model.model.layers."} {
		at := fmt.Sprintf("%s%d.self_attn.", prefix, layer)
		for _, name := range []string{"q_proj", "qkv_proj"} { // the queries come first
			if w := tensor(t, c, at+name+".weight"); w != nil {
				for r := range n {
					cut(w, r)
				}
				if b := tensor(t, c, at+name+".bias"); b != nil {
					bias = b[:n]
				}
				return rows, bias
			}
		}
	}
	at := fmt.Sprintf("gpt_neox.layers.%d.attention.query_key_value.", layer) // a head after the other: its query, key and value
	w, b := tensor(t, c, at+"weight"), tensor(t, c, at+"bias")
	for r := range n {
		from := r/s.HeadDim*3*s.HeadDim + r%s.HeadDim
		cut(w, from)
		if b != nil {
			bias = append(bias, b[from])
		}
	}
	return rows, bias
}

// normWeights are the scales by stored names: of the norm before attention, and of queries, one a row.
func normWeights(t *testing.T, c *loader.Checkpoint, layer int) (input, query []float64) {
	t.Helper()
	s := &c.Spec
	offset := 0.0
	if strings.HasPrefix(s.Family, "gemma") {
		offset = 1
	}
	float := func(w []float32) (out []float64) {
		for _, v := range w {
			out = append(out, float64(v)+offset)
		}
		return out
	}
	for _, at := range []string{fmt.Sprintf("model.layers.%d.", layer), fmt.Sprintf("language_model.model.layers.%d.", layer), fmt.Sprintf("gpt_neox.layers.%d.", layer)} {
		if w := tensor(t, c, at+"input_layernorm.weight"); w != nil {
			input = float(w)
		}
		if w := tensor(t, c, at+"self_attn.q_norm.weight"); w != nil {
			query = float(w)
		}
		for h := range s.Heads {
			if w := tensor(t, c, fmt.Sprintf("%sself_attn.q_layernorm.norms.%d.weight", at, h)); w != nil {
				query = append(query, float(w)...)
			}
		}
	}
	for len(query) > 0 && len(query) < s.Heads*s.HeadDim {
		query = append(query, query[:s.HeadDim]...)
	}
	return input, query
}

// TestFamilies holds every score against sums over the stored tensors, for each golden checkpoint.
func TestFamilies(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(parity, "*", "config.json"))
	if err != nil || len(dirs) < 25 {
		t.Fatalf("got %d checkpoints, %v", len(dirs), err)
	}
	seen := map[string]bool{}
	for _, config := range dirs {
		dir := filepath.Dir(config)
		c, err := loader.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		n, err := WeightNorms(context.Background(), c, NormsOptions{Permutations: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n.Scores {
			seen[n.Scores[i].Detector] = true
			compareNorm(t, c, &n.Scores[i])
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{ScoreL1, ScoreBias, ScoreInput, ScoreQNorm, ScoreAll, ScoreInt8} {
		if !seen[name] {
			t.Errorf("no checkpoint has %s", name)
		}
	}
}

func compareNorm(t *testing.T, c *loader.Checkpoint, got *heads.Scores) {
	t.Helper()
	s := &c.Spec
	for l := range s.Layers {
		rows, bias := queryRows(t, c, l)
		input, query := normWeights(t, c, l)
		for h := range s.Heads {
			want := 0.0
			for r := h * s.HeadDim; r < (h+1)*s.HeadDim; r++ {
				want += plainRow(got.Detector, rows[r], at32(bias, r), input, at64(query, r)) / float64(s.HeadDim)
			}
			if x := got.Data[l*s.Heads+h]; math.Abs(x-want) > 1e-12*want {
				t.Fatalf("%s: %s of L%dH%d: got %v, want %v", c.Dir, got.Detector, l, h, x, want)
			}
		}
	}
}

func at32(x []float32, i int) float64 {
	if x == nil {
		return 0
	}
	return float64(x[i])
}

func at64(x []float64, i int) float64 {
	if x == nil {
		return 1
	}
	return x[i]
}

// plainRow is a score of one row, written down as its doc says.
func plainRow(score string, w []float32, bias float64, input []float64, query float64) float64 {
	sum, most := 0.0, 0.0
	for _, v := range w {
		most = max(most, math.Abs(float64(v)))
	}
	for i, v := range w {
		x := math.Abs(float64(v))
		switch {
		case (score == ScoreInput || score == ScoreAll) && input != nil:
			x = math.Abs(float64(v) * input[i])
		case score == ScoreInt8:
			x = math.RoundToEven(127 * x / most)
		}
		sum += x
	}
	switch score {
	case ScoreBias:
		return sum + math.Abs(bias)
	case ScoreQNorm:
		return sum * math.Abs(query)
	case ScoreAll:
		return (sum + math.Abs(bias)) * math.Abs(query)
	}
	return sum
}

// tiny writes and opens a small checkpoint.
func tiny(t *testing.T) *loader.Checkpoint {
	t.Helper()
	dir := t.TempDir()
	if err := loadertest.Write(dir, loadertest.Options{Layers: 5, KVHeads: 2, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestNormsAgainstASet(t *testing.T) {
	c := tiny(t)
	ctx := context.Background()
	plain, err := WeightNorms(ctx, c, NormsOptions{Permutations: 10})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, NormsSchema, plain)
	// The best head of each layer is the set: it must stand out as far as labels inside layers can.
	z := plain.Z
	var best heads.Set
	for l := range z.Layers {
		row := z.Data[l*z.Heads:][:z.Heads]
		sum, at := 0.0, 0
		for h, v := range row {
			sum += v
			if v > row[at] {
				at = h
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Errorf("layer %d: z sums to %v", l, sum)
		}
		best = append(best, heads.Ranking{{Layer: l, Index: at}}...)
	}
	d := &heads.Document{Path: "best", Detectors: []heads.Detected{{Detector: "listed", Heads: heads.Ranking(best), Scores: &plain.Scores[0]}}}
	n, err := WeightNorms(ctx, c, NormsOptions{List: d, Permutations: 2000, Resamples: 100})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, NormsSchema, n)
	test := n.Tests[0]
	arrangements := math.Pow(float64(z.Heads), float64(z.Layers))
	if !test.Exact || test.N1 != z.Layers || test.AUROC < 0.8 || math.Abs(float64(test.P)*arrangements-math.Round(float64(test.P)*arrangements)) > 1e-6 || float64(test.P) > 2/arrangements+1e-12 {
		t.Errorf("got %+v of %v arrangements", test, arrangements)
	}
	if test.DemeanedD < test.CohenD.Value || test.CohenD.Low > test.CohenD.Value || test.CohenD.High < test.CohenD.Value {
		t.Errorf("got d %v, inside layers %v", test.CohenD, test.DemeanedD)
	}
	if s := test.Spearman; s == nil || math.Abs(float64(s.All)-1) > 1e-12 || math.Abs(float64(s.InLayers.Value)-1) > 1e-12 {
		t.Errorf("with itself: %+v", s)
	}
	if n.Key == plain.Key || n.Model.ReadSHA256 != plain.Model.ReadSHA256 {
		t.Errorf("keys %s, %s; read %s, %s", n.Key, plain.Key, n.Model.ReadSHA256, plain.Model.ReadSHA256)
	}
	again, err := WeightNorms(ctx, c, NormsOptions{List: d, Permutations: 2000, Resamples: 100})
	if err != nil {
		t.Fatal(err)
	}
	n.Seconds, again.Seconds = 0, 0
	if a, b := asJSON(t, n), asJSON(t, again); a != b {
		t.Errorf("two runs differ")
	}
	var text strings.Builder
	if err := n.Write(&text); err != nil || !strings.Contains(text.String(), "p published") || !strings.Contains(text.String(), "highest:") {
		t.Errorf("got %v\n%s", err, text.String())
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNormsStored: what is stored is read back as a list with scores by package heads.
func TestNormsStored(t *testing.T) {
	c := tiny(t)
	n, err := WeightNorms(context.Background(), c, NormsOptions{Permutations: 10})
	if err != nil {
		t.Fatal(err)
	}
	path, err := n.Store(filepath.Join(t.TempDir(), "new", "folder"), c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := heads.ReadDocument(path)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := d.Detector(ScoreL1)
	if !ok || d.Shape != (heads.Shape{Layers: c.Spec.Layers, Heads: c.Spec.Heads, KVHeads: c.Spec.KVHeads}) || x.Scores.Data[3] != n.Scores[0].Data[3] {
		t.Errorf("got %+v", d)
	}
	if same := compare(t, new(float64), path, path); same.Past != 0 {
		t.Errorf("with itself: %v", same.Pairs[0].Past)
	}
}

func TestNormsErrors(t *testing.T) {
	c := tiny(t)
	for text, want := range map[string]string{
		"L9H0":   "no such head: L9H0",
		"0\t1\n": "no list of query heads",
		`{"model": {"layers": 2, "heads": 4, "kv_heads": 2}, "heads": [[0, 1]]}`: "want the model's 5 x",
	} {
		d, err := heads.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := WeightNorms(context.Background(), c, NormsOptions{List: d, Permutations: 10}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := WeightNorms(ctx, c, NormsOptions{Permutations: 10}); err == nil {
		t.Error("a cancelled run gave a result")
	}
}

// TestRealNorms: a real checkpoint's 8-bit codes are of the published size, and its norms far below.
func TestRealNorms(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skipf("NOT RUN: no home folder: %v", err)
	}
	c, err := loader.Open(filepath.Join(home, ".cache", "headscope", "models", "SmolLM2-135M-Instruct"))
	if err != nil {
		t.Skipf("NOT RUN: no demo model (make model): %v", err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := WeightNorms(context.Background(), c, NormsOptions{Permutations: 10})
	if err != nil {
		t.Fatal(err)
	}
	mean := map[string]float64{}
	for i := range n.Scores {
		_, m, _ := span(n.Scores[i].Data)
		mean[n.Scores[i].Detector] = m / float64(c.Spec.Hidden)
	}
	if mean[ScoreInt8] < 20 || mean[ScoreInt8] > 35 || mean[ScoreL1] > 0.5 {
		t.Errorf("a weight: got %v", mean)
	}
	t.Logf("a weight: %.4g, as codes %.4g; %.1f s", mean[ScoreL1], mean[ScoreInt8], n.Seconds)
}
