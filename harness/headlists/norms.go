package headlists

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/stats"
)

// Norms is what the query projections of a checkpoint say of its heads, weights alone. None of it is a utility: the numbers know
// nothing of what a head is for.
type Norms struct {
	Schema  int          `json:"schema"`
	Kind    string       `json:"kind"` // "norms"
	Tool    harness.Tool `json:"tool"`
	Command []string     `json:"command"`
	Key     string       `json:"key"` // of what was read and asked for

	Model  NormsModel     `json:"model"`
	Scores []heads.Scores `json:"scores"` // wq_l1 first; see weightScores
	Z      heads.Scores   `json:"z"`      // of wq_l1: (value - mean of its layer) / standard deviation of its layer (ddof 1)

	Set   *NormSet   `json:"set"`   // the heads that were tested; null without
	Tests []NormTest `json:"tests"` // one a score; wq_l1 is the one to look at, the others say how it was made

	Seed         uint64              `json:"seed"`
	Permutations int                 `json:"permutations"`
	Resamples    int                 `json:"resamples"`
	Environment  harness.Environment `json:"environment"`
	Seconds      float64             `json:"seconds"`
}

// NormsModel describes the checkpoint.
type NormsModel struct {
	Ref          string `json:"ref"`
	Revision     string `json:"revision,omitempty"`
	Family       string `json:"family"`
	Layers       int    `json:"layers"`
	Heads        int    `json:"heads"`
	KVHeads      int    `json:"kv_heads"`
	HeadDim      int    `json:"head_dim"`
	Hidden       int    `json:"hidden"`
	DType        string `json:"dtype"`
	ConfigSHA256 string `json:"config_sha256"`
	ReadSHA256   string `json:"read_sha256"` // of the parameters that were read, in order
}

// NormSet are heads and where they come from.
type NormSet struct {
	Source   string    `json:"source"`
	Detector string    `json:"detector"`
	Heads    heads.Set `json:"heads"`
}

// NormsOptions are what norms needs beside the checkpoint.
type NormsOptions struct {
	List         *heads.Document // heads to test; nil = none
	Seed         uint64
	Permutations int // 10000 is usual
	Resamples    int // draws of whole layers for an interval; 0 = 1000
	Command      []string
}

// WeightNorms reads the query projections of a checkpoint, layer by layer, and tests a set of heads against the others.
func WeightNorms(ctx context.Context, c *loader.Checkpoint, o NormsOptions) (*Norms, error) {
	start := time.Now()
	if o.Resamples == 0 {
		o.Resamples = resamples
	}
	s := &c.Spec
	n := &Norms{
		Schema: SchemaVersion, Kind: "norms", Tool: harness.CurrentTool(), Command: append([]string{}, o.Command...), Environment: harness.CurrentEnvironment(nil),
		Seed: o.Seed, Permutations: o.Permutations, Resamples: o.Resamples, Tests: []NormTest{},
		Model: NormsModel{c.Ref, c.Revision, s.Family, s.Layers, s.Heads, s.KVHeads, s.HeadDim, s.Hidden, s.DType, c.ConfigSHA256, ""},
	}
	var listed *heads.Detected
	if o.List != nil {
		var err error
		if listed, err = testable(o.List, s); err != nil {
			return nil, err
		}
		n.Set = &NormSet{o.List.Path, listed.Detector, listed.Heads.Set()}
	}
	var err error
	if n.Scores, n.Model.ReadSHA256, err = weightScores(ctx, c); err != nil {
		return nil, err
	}
	n.Z = zScores(n.Scores[0])
	if n.Set != nil {
		for i := range n.Scores {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n.Tests = append(n.Tests, n.test(&n.Scores[i], n.Set.Heads, listed.Scores, uint64(i)<<8))
		}
	}
	n.Key, err = n.key()
	n.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
	return n, err
}

// testable returns what the list's first detector says, if it is about query heads of this model.
func testable(d *heads.Document, s *loader.Spec) (*heads.Detected, error) {
	x := d.Detectors[0]
	want := heads.Shape{Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads}
	switch got := d.Shape; {
	case d.KV || x.Heads == nil:
		return nil, fmt.Errorf("%s: got no list of query heads, want one to test", d.Path)
	case got.Layers != 0 && got.Layers != want.Layers, got.Heads != 0 && got.Heads != want.Heads, got.KVHeads != 0 && got.KVHeads != want.KVHeads:
		return nil, fmt.Errorf("%s: got a list for %d layers x %d heads (%d kv), want the model's %d x %d (%d kv)",
			d.Path, got.Layers, got.Heads, got.KVHeads, want.Layers, want.Heads, want.KVHeads)
	}
	if err := x.Heads.Set().Validate(s.Layers, s.Heads); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	return &x, nil
}

// key is the hash of what decides the numbers.
func (n *Norms) key() (string, error) {
	b, err := json.Marshal(struct {
		Schema             int
		Config, Read       string
		Set                *NormSet
		Seed               uint64
		Permutations, Reps int
	}{n.Schema, n.Model.ConfigSHA256, n.Model.ReadSHA256, n.Set, n.Seed, n.Permutations, n.Resamples})
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:12], nil
}

// Store writes the norms as <out>/<model>/norms_<key>.json and returns the path.
func (n *Norms) Store(out string, c *loader.Checkpoint) (string, error) {
	path := filepath.Join(out, harness.ModelFolder(c), "norms_"+n.Key+".json")
	b, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("results: %w", err)
	}
	return path, harness.WriteFile(path, append(b, '\n'))
}

// zScores standardises scores inside their layers: layers differ in scale for reasons that have nothing to do with heads. A layer without
// variation has none.
func zScores(s heads.Scores) heads.Scores {
	out := heads.NewScores(s.Detector+"_z", s.Layers, s.Heads)
	for l := range s.Layers {
		row := s.Data[l*s.Heads:][:s.Heads]
		d := stats.Describe(row)
		mean, sd := d.Mean.Or(math.NaN()), d.SD.Or(math.NaN())
		if sd == 0 {
			sd = math.NaN()
		}
		for h, v := range row {
			out.Data[l*s.Heads+h] = (v - mean) / sd
		}
	}
	return out
}
