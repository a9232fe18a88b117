package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// PerplexityOptions ask for the perplexity of texts. Zero values mean what their comments say.
type PerplexityOptions struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Texts      *TextSet
	Windows    Windows
	Conditions []NamedEdits // beside the unmodified model
	Seed       uint64       // of the intervals
	Out        string       // folder of the results; empty: nothing is written
	Command    []string
	Events     func(Event) // may be nil
}

// PlanTexts identifies texts by content and name, and says how they are cut.
type PlanTexts struct {
	Source  string     `json:"source"`
	SHA256  string     `json:"sha256"`
	Windows Windows    `json:"windows"`
	Warning string     `json:"warning,omitempty"`
	Texts   []PlanText `json:"texts"`
}

// PlanText is one document.
type PlanText struct {
	ID      string `json:"id"`
	Tokens  int    `json:"tokens"`  // of the text
	Scored  int    `json:"scored"`  // without the first where nothing stands before it
	Windows int    `json:"windows"` // that it is cut into
}

// Perplexity is what a measurement of texts writes.
type Perplexity struct {
	Schema  int      `json:"schema"`
	Kind    string   `json:"kind"` // "perplexity"
	Tool    Tool     `json:"tool"`
	Command []string `json:"command"`
	Key     string   `json:"key"` // of all that decides the numbers

	Model      ModelInfo    `json:"model"`
	Texts      PlanTexts    `json:"texts"`
	Run        TextRun      `json:"run"`
	Conditions []TextResult `json:"conditions"`              // the unmodified model first
	Skipped    heads.Set    `json:"skipped_heads,omitempty"` // of edits of planes and tables, in layers that do not rotate: left out

	Environment Environment `json:"environment"`
	Seconds     float64     `json:"seconds"`

	Path string `json:"-"` // where it was written
}

// TextRun is what the last bits and the intervals depend on.
type TextRun struct {
	Engine    int     `json:"engine"`
	DType     string  `json:"dtype"`
	Device    string  `json:"device"`
	Backend   string  `json:"backend"`
	Seed      uint64  `json:"seed"`
	Stream    uint64  `json:"stream"`
	Resamples int     `json:"resamples"`
	Level     float64 `json:"level"`
}

// PerplexitySchema is the JSON Schema of what MeasurePerplexity writes.
func PerplexitySchema() ([]byte, error) {
	return TypeSchema("headscope perplexity", "Perplexity of texts, unmodified and under edits.", Perplexity{})
}

// planTexts tokenises and cuts a set of texts.
func planTexts(c *loader.Checkpoint, set *TextSet, w Windows) (*PlanTexts, []textWindows, error) {
	if err := w.fill(&c.Spec); err != nil {
		return nil, nil, err
	}
	docs, err := w.cut(c.Tokenizer, set.Documents)
	if err != nil {
		return nil, nil, err
	}
	p := &PlanTexts{Source: set.Source, SHA256: set.SHA256, Windows: w, Warning: set.Warning}
	for i := range docs {
		p.Texts = append(p.Texts, PlanText{docs[i].id, docs[i].tokens, docs[i].scored(), len(docs[i].windows)})
	}
	return p, docs, nil
}

// scored counts the tokens that are scored.
func (p *PlanTexts) scored() int {
	n := 0
	for _, t := range p.Texts {
		n += t.Scored
	}
	return n
}

func (o *PerplexityOptions) check() error {
	names := map[string]bool{baseline: true}
	for _, c := range o.Conditions {
		if names[c.Name] {
			return usagef("give each condition its own name", "condition %q is there twice", c.Name)
		}
		names[c.Name] = true
		if err := checkTextEdits(&o.Checkpoint.Spec, c.Edits); err != nil {
			return err
		}
	}
	return nil
}

// MeasurePerplexity scores the texts by the unmodified model and under each condition, and writes the result.
func MeasurePerplexity(ctx context.Context, o PerplexityOptions) (*Perplexity, error) {
	start := time.Now()
	if err := o.check(); err != nil {
		return nil, err
	}
	plan, docs, err := planTexts(o.Checkpoint, o.Texts, o.Windows)
	if err != nil {
		return nil, err
	}
	r, err := o.plan(ctx, plan)
	if err != nil {
		return nil, err
	}
	if o.Out != "" {
		r.Path = filepath.Join(o.Out, ModelFolder(o.Checkpoint), "perplexity_"+r.Key+".json")
		if err := os.MkdirAll(filepath.Dir(r.Path), 0o755); err != nil {
			return nil, folderError(err)
		}
	}
	var edits [][]decoder.Edit
	for _, c := range o.Conditions {
		edits = append(edits, decoder.Canonical(c.Edits))
	}
	totals, err := o.score(ctx, r, docs, edits)
	if err != nil {
		return nil, err
	}
	st := PlanStats{Seed: o.Seed, Bootstrap: streamBootstrap, Resamples: resamples, Level: level}
	r.Conditions = []TextResult{st.textResult(NamedEdits{Name: baseline}, r.Run.DType, totals[0], nil)}
	r.Skipped = skippedHeads(&o.Checkpoint.Spec, edits...)
	for k, c := range o.Conditions {
		r.Conditions = append(r.Conditions, st.textResult(NamedEdits{c.Name, edits[k]}, r.Run.DType, totals[k+1], totals[0]))
	}
	r.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
	if r.Path == "" {
		return r, nil
	}
	data, err := r.JSON()
	if err != nil {
		return nil, err
	}
	return r, writeWhole(r.Path, data)
}

// plan is a result without numbers, with its key.
func (o *PerplexityOptions) plan(ctx context.Context, texts *PlanTexts) (*Perplexity, error) {
	c, s, be := o.Checkpoint, &o.Checkpoint.Spec, o.Model.Backend()
	weights, err := WeightsSHA256(ctx, c)
	if err != nil {
		return nil, err
	}
	r := &Perplexity{
		Schema: schemaVersion, Kind: "perplexity", Tool: CurrentTool(), Command: append([]string{}, o.Command...),
		Model: ModelInfo{c.Ref, c.Revision, s.Family, s.Layers, s.Heads, s.KVHeads, s.HeadDim, c.ConfigSHA256, c.Tokenizer.SHA256(), weights},
		Texts: *texts, Environment: CurrentEnvironment(be),
		Run: TextRun{decoder.Engine, o.Model.DType(), string(be.Kind), be.About, o.Seed, streamBootstrap, resamples, level},
	}
	r.Key, err = r.key(o.Conditions)
	return r, err
}

// key is the hash of all that decides the numbers.
func (r *Perplexity) key(conds []NamedEdits) (string, error) {
	var asked []NamedEdits
	for _, c := range conds {
		asked = append(asked, NamedEdits{c.Name, decoder.Canonical(c.Edits)})
	}
	data, err := json.Marshal(struct {
		Schema                     int
		Config, Tokenizer, Weights string
		Texts                      *PlanTexts
		Run                        TextRun
		Conditions                 []NamedEdits
	}{r.Schema, r.Model.ConfigSHA256, r.Model.TokenizerSHA256, r.Model.WeightsSHA256, &r.Texts, r.Run, asked})
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:12], nil
}

// JSON is the form in which it is stored.
func (r *Perplexity) JSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("perplexity: %w", err)
	}
	return buf.Bytes(), nil
}

// Write shows it as text.
func (r *Perplexity) Write(w io.Writer, v View) error {
	out := &printer{w: w}
	out.line("%s  %s  %s  %s  key %s", lastPart(r.Model.Ref), r.Model, r.Run.DType, r.Environment.Hardware.About, r.Key)
	out.line("%s", r.Texts.describe())
	out.line("")
	out.grid(textRows(r.Conditions), v.Markdown)
	out.line("")
	for _, n := range textNotes(&r.Texts, r.Conditions) {
		out.line("%s", n)
	}
	if note := skippedNote(r.Skipped); note != "" {
		out.line("%s", note)
	}
	return out.err
}

func (p *PlanTexts) describe() string {
	windows := 0
	for _, t := range p.Texts {
		windows += t.Windows
	}
	return fmt.Sprintf("%d documents of %s, %d tokens scored in %d windows of up to %d, stride %d", len(p.Texts), p.Source, p.scored(), windows, p.Windows.Tokens, p.Windows.Stride)
}

// textRows is the table of conditions on texts.
func textRows(conds []TextResult) [][]string {
	rows := [][]string{{"condition", "nll", "95 %", "perplexity", "tax %", "95 %", "KL", "95 %"}}
	for _, c := range conds {
		row := []string{c.Name, show(c.NLL, 4), interval(c.NLL, 4), significant(c.Perplexity), "", "", "", ""}
		if c.Tax != nil {
			row[4], row[5] = signed(*c.Tax, 2), interval(*c.Tax, 2)
			row[6], row[7] = show(*c.KL, 5), interval(*c.KL, 5)
			if c.NoOp == unchanged {
				row[4] = "no-op"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// significant shows a perplexity, which may have any size.
func significant(m Metric) string {
	if m.Value != m.Value {
		return "-"
	}
	return strconv.FormatFloat(float64(m.Value), 'g', 5, 64)
}

func textNotes(p *PlanTexts, conds []TextResult) []string {
	n := []string{
		"nll: mean over all scored tokens, nats; perplexity: exp of it. tax: 100 (perplexity / unmodified - 1). KL: of the unmodified model's",
		"next-token distribution from the edited one's, nats, mean over rows. Intervals: bootstrap over documents, paired with the unmodified model's.",
	}
	for _, c := range conds {
		if note := noOpNote(c.Name, c.NoOp); note != "" {
			n = append(n, note)
		}
	}
	if len(p.Texts) == 1 {
		n = append(n, "One document: there is no interval over documents (give several, or a .jsonl file with one a line).")
	}
	if p.Warning != "" {
		n = append(n, p.Warning)
	}
	if p.Source == BuiltinProse {
		n = append(n, fmt.Sprintf("The texts are %d short paragraphs that are built in, %d tokens: enough to see damage, too few to tell small differences. --text FILE takes your own.", len(p.Texts), p.scored()))
	}
	return slices.Clip(n)
}
