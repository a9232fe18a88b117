package headlists

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/headscope/headscope/heads"
)

func profile(name string) string {
	return filepath.Join("..", "..", "stats", "testdata", "published-profiles", "profile", name+".json")
}

func format(name string) string {
	return filepath.Join("..", "..", "heads", "testdata", "formats", name)
}

func compare(t *testing.T, tolerance *float64, paths ...string) *Comparison {
	t.Helper()
	c, err := Compare(paths, CompareOptions{Tolerance: tolerance, Resamples: 100})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, ComparisonSchema, c)
	return c
}

// valid holds a document against its schema, by a validator that is not ours.
func valid(t *testing.T, schema func() ([]byte, error), document any) {
	t.Helper()
	text, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	comp := jsonschema.NewCompiler()
	if err := comp.AddResource("s.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := comp.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%v", err)
	}
	v.(map[string]any)["extra"] = 1
	if s.Validate(v) == nil {
		t.Error("an unknown key is valid")
	}
}

// TestTwoSeeds: the published reliability of the 7B model, with intervals around it.
func TestTwoSeeds(t *testing.T) {
	c := compare(t, nil, profile("qwen25_7b_seed42"), profile("qwen25_7b_seed123"))
	if len(c.Pairs) != 2 || c.Unit != "heads" || c.Shape != (heads.Shape{Layers: 28, Heads: 28, KVHeads: 4}) {
		t.Fatalf("got %d pairs over %+v", len(c.Pairs), c.Shape)
	}
	var published struct {
		Reliability []map[string]any
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "stats", "testdata", "published-profiles", "analysis", "reliability_e9.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &published); err != nil {
		t.Fatal(err)
	}
	for _, row := range published.Reliability {
		if row["model"] != "qwen25_7b" {
			continue
		}
		for i, key := range []string{"argmax", "copy"} {
			p := c.Pairs[i]
			if j := row[key+"_jaccard"].(float64); math.Abs(p.Sets.Jaccard-j) > 1e-12 || !p.Sets.Interval.Contains(j) || p.Sets.P > 1e-20 {
				t.Errorf("%s: got %+v, want Jaccard %v", key, p.Sets, j)
			}
			if r := row[key+"_score_spearman"].(float64); math.Abs(p.Scores.Spearman.Or(0)-r) > 1e-9 || !p.Scores.Interval.Contains(r) {
				t.Errorf("%s: got %+v, want Spearman %v", key, p.Scores, r)
			}
			if p.KV == nil || p.KV.Union > p.Sets.Union || p.KVScore == nil || p.KVScore.N != 28*4 {
				t.Errorf("%s: key/value heads: %+v, %+v", key, p.KV, p.KVScore)
			}
		}
	}
}

// TestOneFile: the detectors of one profile, as its own numbers say.
func TestOneFile(t *testing.T) {
	c := compare(t, nil, profile("llama31_8b_seed42"))
	d, err := heads.ReadDocument(profile("llama31_8b_seed42"))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := d.Detector("argmax_last")
	b, _ := d.Detector("copy_tf")
	if x := c.Files[0].Detectors[0]; x.Layers == nil || math.Abs(x.Layers.Weighted.Or(0)-c.scalar(t, "layer_com")) > 1e-12 || x.KV.Active == 0 || math.Abs(x.Scores.Gini.Or(0)-c.scalar(t, "gini")) > 1e-12 {
		t.Errorf("got %+v", x)
	}
	if len(c.Pairs) != 1 || c.Pairs[0].Sets.Intersection != len(a.Heads.Set().Intersect(b.Heads.Set())) {
		t.Errorf("got %+v", c.Pairs)
	}
}

// scalar is a number that the compared profile stores.
func (c *Comparison) scalar(t *testing.T, key string) float64 {
	t.Helper()
	b, err := os.ReadFile(c.Files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Profile struct{ Scalars map[string]any }
	}
	if err := heads.DecodeJSON(b, &p); err != nil {
		t.Fatal(err)
	}
	x, ok := p.Profile.Scalars[key].(float64)
	if !ok {
		t.Fatalf("%s: no %s", c.Files[0].Path, key)
	}
	return x
}

func TestOtherFormats(t *testing.T) {
	llama := profile("llama31_8b_instruct_seed42")
	c := compare(t, nil, llama, format("qrhead_llama31_8b_instruct.yaml"))
	if len(c.Pairs) != 2 || c.Pairs[0].Sets.Intersection != 10 || c.Pairs[0].KV == nil || c.Pairs[0].Scores != nil || !c.Pairs[0].Held || c.Pairs[1].Held {
		t.Errorf("QRHead: %+v", c.Pairs[0])
	}
	c = compare(t, nil, llama, format("duo_llama31_8b_instruct.tsv"))
	p := c.Pairs[0]
	if c.Unit != "kv_heads" || p.Cut == "" || p.Sets.NB != p.Sets.NA || p.Scores == nil || p.Scores.N != 256 || len(p.Ties) == 0 {
		t.Errorf("DuoAttention: %s, %+v", c.Unit, p)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"32 layers x 8 kv heads", "argmax_last / duo_gate", "heads tie at that cut"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTolerance(t *testing.T) {
	limit := func(x float64) *float64 { return &x }
	nine, ten := write(t, "nine.txt", "L0H0,L0H1,L0H2,L0H3,L0H4,L0H5,L0H6,L0H7,L0H8"), write(t, "ten.txt", "L0H0,L0H1,L0H2,L0H3,L0H4,L0H5,L0H6,L0H7,L0H8,L1H0")
	for x, past := range map[float64]int{0.1: 0, 0.0999: 1, 0: 1, 1: 0} {
		if c := compare(t, limit(x), nine, ten); c.Past != past || c.ShapeFrom != "names" {
			t.Errorf("tolerance %v: %d past, want %d: %v", x, c.Past, past, c.Pairs[0].Past)
		}
	}
	if c := compare(t, nil, nine, ten); c.Past != 0 {
		t.Errorf("no tolerance: %d past", c.Past)
	}
	if c := compare(t, limit(0), ten, ten); c.Past != 0 {
		t.Errorf("the same list: %v", c.Pairs[0].Past)
	}
	// The same heads by the threshold, other scores: above 1 relative to the largest.
	one := write(t, "one.json", `{"0-0": [1.0], "0-1": [0.2], "1-0": [0], "1-1": [0]}`)
	two := write(t, "two.json", `{"0-0": [2.0], "0-1": [0.2], "1-0": [0], "1-1": [0]}`)
	for x, past := range map[float64]int{0.5: 0, 0.49: 1} {
		if c := compare(t, limit(x), one, two); c.Past != past {
			t.Errorf("scores, tolerance %v: %d past, want %d: %v", x, c.Past, past, c.Pairs[0].Past)
		}
	}
}

func TestCompareErrors(t *testing.T) {
	list := write(t, "list.txt", "L40H0")
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{profile("qwen25_7b_seed42"), profile("llama31_8b_seed42")}, "32 layers, want 28"},
		{[]string{profile("qwen25_7b_seed42"), list}, "no such head: L40H0"},
		{[]string{list, format("duo_llama31_8b_instruct.tsv")}, "query heads without their number"},
		{[]string{list}, "got one detector"},
		{[]string{list, filepath.Join(t.TempDir(), "absent")}, "no such file"},
		{[]string{list, write(t, "bad.json", "{\n\"a\"")}, "line 2"},
	} {
		if _, err := Compare(c.paths, CompareOptions{Resamples: 10}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.paths, err, c.want)
		}
	}
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	llama := profile("llama31_8b_instruct_seed42")
	for f, detector := range map[heads.Format]string{heads.FormatDuo: "", heads.FormatQRHead: "copy_tf", heads.FormatWu: "", heads.FormatLabels: "argmax_last"} {
		out := filepath.Join(dir, string(f))
		path, err := Export(llama, f, detector, out)
		if err != nil || path != out {
			t.Fatalf("%s: %s, %v", f, path, err)
		}
		got, err := heads.ReadDocument(path)
		if err != nil || got.Format != f {
			t.Fatalf("%s: read as %+v, %v", f, got, err)
		}
		d, err := heads.ReadDocument(llama)
		if err != nil {
			t.Fatal(err)
		}
		want := d.Detectors[0]
		if detector == "copy_tf" {
			want = d.Detectors[1]
		}
		set := want.Heads.Set()
		if f == heads.FormatDuo {
			set = set.KVHeads(4)
		}
		if x := got.Detectors[0]; !x.Heads.Set().Equal(set) {
			t.Errorf("%s: got %s, want %s", f, x.Heads, set)
		}
	}
	for _, c := range []struct {
		path, detector, out string
		format              heads.Format
		want                string
	}{
		{llama, "magic", "", heads.FormatDuo, `no detector "magic"`},
		{llama, "", llama, heads.FormatDuo, "overwrite"},
		{llama, "", "", heads.FormatProfile, "not exported"},
		{format("duo_llama31_8b_instruct.tsv"), "", "", heads.FormatLabels, "key/value heads"},
		{write(t, "list.txt", "L1H2"), "", "", heads.FormatDuo, "want a model's"},
		{write(t, "list.txt", "L1H2"), "", "", heads.FormatWu, "no scores"},
	} {
		if _, err := Export(c.path, c.format, c.detector, c.out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: got %v, want %q", c.path, c.format, err, c.want)
		}
	}
}
