package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/safetensors"
)

// Tolerances of a float32 decoder against transformers, absolute unless said otherwise. They are those that the golden folders'
// README recommends from its measured noise.
const (
	TolValue     = 1e-4 // logits, hidden states, queries, keys
	TolAttention = 1e-5 // attention probabilities
	TolInvFreq   = 1e-6 // relative
	TolBFloat16  = 0.5  // logits from bfloat16 weights and activations
)

// Options says how the folder's model is run.
type Options struct {
	Memory int64 // as decoder.Options.Memory: small values make the layers stream
}

// Line is one compared quantity.
type Line struct {
	Name      string  `json:"name"`
	Diff      float64 `json:"diff"` // largest difference; number of differing tokens for token quantities
	Tolerance float64 `json:"tolerance"`
	OK        bool    `json:"ok"`
	Skipped   string  `json:"skipped,omitempty"` // why it was not compared
}

// Report is the outcome for one folder.
type Report struct {
	Dir     string `json:"dir"`
	Backend string `json:"backend"`
	Lines   []Line `json:"lines"`
	OK      bool   `json:"ok"`
}

// Write prints the report, a line a quantity.
func (r *Report) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "%s on %s\n", r.Dir, r.Backend)
	failed, skipped := 0, 0
	for _, l := range r.Lines {
		state := "ok"
		switch {
		case l.Skipped != "":
			state = "skipped"
			skipped++
		case !l.OK:
			state = "DIFFERS"
			failed++
		}
		detail := fmt.Sprintf("%.2g (tolerance %.2g)", l.Diff, l.Tolerance)
		if l.Skipped != "" {
			detail = l.Skipped
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", l.Name, state, detail)
	}
	fmt.Fprintf(tw, "%d compared, %d differ, %d skipped\n", len(r.Lines)-skipped, failed, skipped)
	return tw.Flush()
}

// Dir compares the checkpoint in dir with its golden values.
func Dir(ctx context.Context, be *decoder.Backend, dir string, o Options) (*Report, error) {
	g, err := readGolden(dir)
	if err != nil {
		return nil, err
	}
	defer g.arrays.Close()
	c, err := loader.Open(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := decoder.New(be, c, decoder.Options{DType: "float32", Memory: o.Memory})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := &run{ctx: ctx, g: g, m: m, report: &Report{Dir: dir, Backend: be.About}}
	for i := range g.Sequences {
		if err := r.sequence(i); err != nil {
			return nil, fmt.Errorf("%s: sequence %d: %w", dir, i, err)
		}
	}
	for _, iv := range g.Interventions {
		if err := r.intervention(iv); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, iv.Name, err)
		}
	}
	if g.BF16 != nil {
		if err := r.bfloat16(be, c, o); err != nil {
			return nil, fmt.Errorf("%s: bfloat16: %w", dir, err)
		}
	}
	r.report.OK = true
	for _, l := range r.report.Lines {
		r.report.OK = r.report.OK && (l.OK || l.Skipped != "")
	}
	return r.report, nil
}

// golden is the part of golden.json that is compared.
type golden struct {
	Layers        []struct{ Rope *string } // key into a sequence's tables, null where the layer does not rotate
	Sequences     []sequence
	Interventions []intervention
	BF16          json.RawMessage `json:"bf16"`

	arrays *safetensors.File
}

type sequence struct {
	IDs     []int32 `json:"ids"`
	Argmax  [][]int `json:"attn_argmax"`
	Rope    map[string]ropeTable
	Greedy  []int32
	NoCache []int32 `json:"greedy_no_cache"` // where the tables depend on the length
}

// firstTable is some table of the sequence: all have the same number of planes.
func (s *sequence) firstTable() []float64 {
	for _, t := range s.Rope {
		return t.InvFreq
	}
	return nil
}

type ropeTable struct {
	InvFreq []float64 `json:"inv_freq"`
	Scaling float64   `json:"attention_scaling"`
}

type intervention struct {
	Name, Kind, Rows string
	Heads            []decoder.Head
	Planes, Dims     []int
	InvFreq          []float64 `json:"inv_freq"`
	Scope            string    // of swapped tables: all heads, or those of KV group 0
	Source           []int32   `json:"source_ids"`
	Greedy           []int32
}

func readGolden(dir string) (*golden, error) {
	path := filepath.Join(dir, "golden.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no golden.json: not a golden folder: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	g := &golden{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(g.Sequences) == 0 {
		return nil, fmt.Errorf("%s: no sequences", path)
	}
	if string(g.BF16) == "null" {
		g.BF16 = nil
	}
	g.arrays, err = safetensors.OpenFile(filepath.Join(dir, "golden.safetensors"))
	return g, err
}

// array reads a golden array, which must have n values.
func (g *golden) array(name string, n int) ([]float32, error) {
	info, ok := g.arrays.Info(name)
	if !ok {
		return nil, fmt.Errorf("golden.safetensors: no %s", name)
	}
	if info.Elements() != n {
		return nil, fmt.Errorf("golden.safetensors: %s: got %d values, want %d", name, info.Elements(), n)
	}
	raw, err := g.arrays.Bytes(name)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	return out, safetensors.DecodeFloat32(out, raw, info.DType)
}

// maxDiff is the largest |a-b|; NaN anywhere is infinite.
func maxDiff(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d := 0.0
	for i := range a {
		x := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(x) {
			return math.Inf(1)
		}
		d = max(d, x)
	}
	return d
}

func differing(a, b []int32) float64 {
	n := math.Abs(float64(len(a) - len(b)))
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
