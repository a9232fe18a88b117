package headlists

import (
	"fmt"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// SchemaVersion is that of stored comparisons and norms.
const SchemaVersion = 1

const (
	resamples = 1000 // draws of whole layers for an interval
	level     = 0.95 // of intervals
)

// Comparison sets two lists of heads side by side, or the detectors of one file.
type Comparison struct {
	Schema      int                 `json:"schema"`
	Kind        string              `json:"kind"` // "comparison"
	Tool        harness.Tool        `json:"tool"`
	Files       []ListInfo          `json:"files"`
	Unit        string              `json:"unit"` // "heads", or "kv_heads" where a file knows no others
	Shape       heads.Shape         `json:"shape"`
	ShapeFrom   string              `json:"shape_from"` // the file, or "names" where no file tells it
	Pairs       []Pair              `json:"pairs"`
	Conditions  []ConditionPair     `json:"conditions"` // that two results of ours both have
	Tolerance   *float64            `json:"tolerance"`  // null: none was asked for
	Past        int                 `json:"past_tolerance"`
	Seed        uint64              `json:"seed"`
	Resamples   int                 `json:"resamples"` // of whole layers
	Environment harness.Environment `json:"environment"`
}

// ListInfo is a file as it was read.
type ListInfo struct {
	Path      string         `json:"path"`
	Format    heads.Format   `json:"format"`
	Model     string         `json:"model,omitempty"`
	Shape     heads.Shape    `json:"shape"`
	Detectors []DetectorInfo `json:"detectors"`
}

// DetectorInfo is one detector of a file: how its heads lie and how its score is spread. What the file does not tell is null.
type DetectorInfo struct {
	Detector string    `json:"detector"`
	Heads    heads.Set `json:"heads"` // listed; empty where it has scores alone
	Listed   bool      `json:"listed"`

	Layers *heads.LayerProfile  `json:"layer_profile"`
	KV     *heads.KVProfile     `json:"gqa"`
	Scores *heads.Concentration `json:"concentration"`
}

// CompareOptions are what a comparison needs beside the files.
type CompareOptions struct {
	Tolerance *float64 // see Compare; nil = none
	Seed      uint64
	Resamples int // draws of whole layers for an interval; 0 = 1000
}

// Compare reads one file or two, of any format of [heads.ReadDocument], and compares detectors: of two files those of the same name, or
// each with each where no name is shared; of one file each with each. The tolerance holds for pairs of the same name, for the first pair
// where no name is shared, and for every pair of one file: 1 - Jaccard of the sets, and, where the name is the same, the largest difference
// of a score (relative to the largest score where that is above 1), must not be above it. Of two results the conditions of one name are set
// side by side as well; the tolerance holds for the difference of their recalls.
func Compare(paths []string, o CompareOptions) (*Comparison, error) {
	if o.Resamples == 0 {
		o.Resamples = resamples
	}
	var docs []*heads.Document
	for _, p := range paths {
		d, err := heads.ReadDocument(p)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	c := &Comparison{
		Schema: SchemaVersion, Kind: "comparison", Tool: harness.CurrentTool(), Environment: harness.CurrentEnvironment(nil), Tolerance: o.Tolerance,
		Seed: o.Seed, Resamples: o.Resamples, Files: []ListInfo{}, Pairs: []Pair{}, Conditions: []ConditionPair{}, Unit: "heads",
	}
	for _, d := range docs {
		c.Files = append(c.Files, infoOf(d))
	}
	if err := c.fit(docs); err != nil {
		return nil, err
	}
	for i, p := range choose(docs) {
		pair := c.pair(p.a, p.b, stats.Source{Seed: o.Seed, Stream: uint64(i) << 8})
		pair.Held = p.held
		c.hold(&pair)
		c.Pairs = append(c.Pairs, pair)
	}
	if len(docs) == 2 {
		if err := c.conditions(docs); err != nil {
			return nil, err
		}
	}
	if len(c.Pairs) == 0 {
		return nil, fmt.Errorf("%s: got one detector, want two to compare, or a second file", paths[0])
	}
	return c, nil
}

func infoOf(d *heads.Document) ListInfo {
	info := ListInfo{Path: d.Path, Format: d.Format, Model: d.Model, Shape: d.Shape, Detectors: []DetectorInfo{}}
	for _, x := range d.Detectors {
		di := DetectorInfo{Detector: x.Detector, Heads: x.Heads.Set(), Listed: x.Heads != nil}
		if x.Scores != nil {
			c := x.Scores.Concentration(d.Threshold)
			di.Scores = &c
		}
		if di.Listed && d.Shape.Layers > 0 {
			l := di.Heads.LayerProfile(d.Shape.Layers, x.Scores)
			di.Layers = &l
		}
		if g := d.Shape.Group(); di.Listed && g > 0 {
			kv := di.Heads.KVProfile(g)
			di.KV = &kv
		}
		info.Detectors = append(info.Detectors, di)
	}
	return info
}

// fit finds the common shape and brings all documents to the same unit. Heads of different models cannot be compared.
func (c *Comparison) fit(docs []*heads.Document) error {
	for _, d := range docs {
		for _, x := range []struct {
			what      string
			all, mine *int
		}{{"layers", &c.Shape.Layers, &d.Shape.Layers}, {"heads", &c.Shape.Heads, &d.Shape.Heads}, {"key/value heads", &c.Shape.KVHeads, &d.Shape.KVHeads}} {
			switch {
			case *x.mine == 0:
			case *x.all == 0:
				*x.all, c.ShapeFrom = *x.mine, d.Path
			case *x.all != *x.mine:
				return &harness.UsageError{
					Err:    fmt.Errorf("%s: got %d %s, want %d as %s has: heads of different models are not the same heads", d.Path, *x.mine, x.what, *x.all, c.ShapeFrom),
					Advice: "compare lists of one model",
				}
			}
		}
		if d.KV {
			c.Unit = "kv_heads"
		}
	}
	named := heads.Shape{}
	for _, d := range docs {
		for _, x := range d.Detectors {
			for _, h := range x.Heads {
				named.Layers, named.Heads = max(named.Layers, h.Layer+1), max(named.Heads, h.Index+1)
			}
		}
	}
	if c.Shape.Layers == 0 {
		c.Shape.Layers, c.ShapeFrom = max(1, named.Layers), "names"
	}
	if c.Shape.Heads == 0 && c.Unit == "heads" {
		c.Shape.Heads, c.ShapeFrom = max(1, named.Heads), "names"
	}
	if c.Unit == "kv_heads" {
		return c.toKV(docs)
	}
	for _, d := range docs {
		for _, x := range d.Detectors {
			if err := x.Heads.Set().Validate(c.Shape.Layers, c.Shape.Heads); err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
		}
	}
	return nil
}

// toKV turns query heads into the key/value heads that they read.
func (c *Comparison) toKV(docs []*heads.Document) error {
	for _, d := range docs {
		if d.KV {
			continue
		}
		group := c.Shape.Group()
		if group == 0 {
			return &harness.UsageError{
				Err:    fmt.Errorf("%s: got query heads without their number, want it to find the %d key/value heads that they read", d.Path, c.Shape.KVHeads),
				Advice: "give a list that tells its model's shape: a result, or a profile",
			}
		}
		for i := range d.Detectors {
			x := &d.Detectors[i]
			if err := x.Heads.Set().Validate(c.Shape.Layers, c.Shape.Heads); err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
			if x.Heads != nil {
				x.Heads = heads.Ranking(x.Heads.Set().KVHeads(group))
			}
			if x.Scores != nil {
				s := x.Scores.KVMax(group)
				x.Scores = &s
			}
		}
	}
	return nil
}

type choice struct {
	a, b *heads.Detected
	held bool
}

// choose returns the pairs to compare, and which of them the tolerance holds for.
func choose(docs []*heads.Document) (out []choice) {
	a := docs[0].Detectors
	if len(docs) == 1 {
		for i := range a {
			for j := i + 1; j < len(a); j++ {
				out = append(out, choice{&a[i], &a[j], true})
			}
		}
		return out
	}
	b := docs[1].Detectors
	for i := range a {
		for j := range b {
			if a[i].Detector == b[j].Detector {
				out = append(out, choice{&a[i], &b[j], true})
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for i := range a {
		for j := range b {
			out = append(out, choice{&a[i], &b[j], i == 0 && j == 0})
		}
	}
	return out
}
