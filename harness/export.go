package harness

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headscope/headscope/harness/npz"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Formats of Export.
const (
	ExportCSV = "csv"
	ExportNPZ = "npz"
)

// exported is a result with its trials, as far as they are there to be read.
type exported struct {
	r      *Result
	e      *evidence
	stages []exportedStage
}

// exportedStage is one stage's trials as a table, a row a prompt and a column a condition.
type exportedStage struct {
	name    string
	prompts []PromptRecord
	conds   []string
	trials  []Trial // prompt by prompt
}

// Export writes a result for other tools, out of the result and the trials file beside it. Format csv makes a folder of tables:
// heads.csv, conditions.csv, effects.csv, grid.csv and trials.csv, a row a trial, and of results that have them bands.csv, depths.csv, keep.csv
// and texts.csv; what is undefined is an empty cell. Format npz makes
// one NumPy archive. out is the folder or the file; empty: beside the result, under its name. It returns what was written.
func Export(path, format, out string) ([]string, error) {
	r, err := ReadResult(path)
	if err != nil {
		return nil, err
	}
	t, err := readTrials(TrialsOf(path))
	if err != nil {
		return nil, fmt.Errorf("%s: its trials: %w", path, err)
	}
	if t.head.Key != r.Key {
		return nil, &HeaderMismatchError{t.path, "key " + t.head.Key, "key " + r.Key}
	}
	x := &exported{r: r}
	if x.e, err = t.evidence(); err != nil {
		return nil, err
	}
	if err := x.addStages(); err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(path, ".json")
	switch {
	case format == ExportCSV && out == "":
		out = base + "_csv"
	case format == ExportNPZ && out == "":
		out = base + ".npz"
	}
	switch format {
	case ExportCSV:
		return x.writeCSV(out)
	case ExportNPZ:
		entries, err := x.entries()
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			return nil, folderError(err)
		}
		return []string{out}, npz.WriteFile(out, entries)
	}
	return nil, usagef("formats are csv and npz", "format %q", format)
}

func (x *exported) addStages() error {
	add := func(name string, prompts []PromptRecord, conds []condition) {
		if len(x.e.trials[name]) == 0 {
			return
		}
		s := exportedStage{name: name, prompts: prompts, trials: x.e.trials[name]}
		for i := range conds {
			s.conds = append(s.conds, conds[i].name)
		}
		x.stages = append(x.stages, s)
	}
	if x.e.plan.Detect != nil {
		add(StageDetect, x.e.detects, []condition{x.e.plan.detectCondition()})
	}
	for _, exp := range x.e.plan.experiments() {
		conds, err := x.e.conditions(exp)
		if err != nil {
			return err
		}
		add(exp.stage(), x.e.tests, conds)
	}
	add(StageVariants, x.e.variants, []condition{{name: baseline}})
	return nil
}

// scores lists the matrices that the result has.
func (x *exported) scores() []heads.Scores {
	if x.r.Detection != nil {
		return x.r.Detection.Scores
	}
	return nil
}

// csvNumber shows a number in the shortest form that reads back the same; empty where it is undefined.
func csvNumber(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func metricCells(m *Metric) []string {
	if m == nil {
		return []string{"", "", ""}
	}
	return []string{csvNumber(float64(m.Value)), csvNumber(float64(m.Low)), csvNumber(float64(m.High))}
}

func metricColumns(names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, n, n+"_low", n+"_high")
	}
	return out
}

func (x *exported) writeCSV(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, folderError(err)
	}
	var paths []string
	for _, t := range append([]exportedTable{
		{"heads.csv", x.headRows()}, {"conditions.csv", x.conditionRows()}, {"effects.csv", x.effectRows()}, {"grid.csv", x.gridRows()},
		{"trials.csv", x.trialRows()},
	}, x.parts()...) {
		var buf bytes.Buffer
		w := csv.NewWriter(&buf)
		if err := w.WriteAll(t.rows); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		path := filepath.Join(dir, t.name)
		if err := writeWhole(path, buf.Bytes()); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// headRows is a row a head: its scores, and what the threshold makes of it.
func (x *exported) headRows() [][]string {
	head := []string{"layer", "head"}
	for _, s := range x.scores() {
		head = append(head, s.Detector)
	}
	rows := [][]string{append(head, "detected", "class", "hits_on", "given")}
	class, label := map[decoder.Head]string{}, map[decoder.Head]string{}
	var detected, given heads.Set
	if d := x.r.Detection; d != nil {
		detected = d.Heads.Set()
		for _, c := range d.Cuts {
			class[c.Head] = c.Class
		}
		for _, h := range d.Hits {
			label[h.Head] = string(h.Label)
		}
	}
	for _, exp := range x.r.Plan.experiments() {
		about, _ := exp.about()
		given = given.Union(about.Heads.Set())
	}
	for l := range x.r.Model.Layers {
		for i := range x.r.Model.Heads {
			h := decoder.Head{Layer: l, Index: i}
			row := []string{strconv.Itoa(l), strconv.Itoa(i)}
			for _, s := range x.scores() {
				row = append(row, csvNumber(s.At(h)))
			}
			rows = append(rows, append(row, strconv.FormatBool(detected.Contains(h)), class[h], label[h], strconv.FormatBool(given.Contains(h))))
		}
	}
	return rows
}

func countCells(n *Counts) []string {
	var out []string
	for _, v := range []int{n.Planned, n.Hit, n.Decoy, n.Other, n.Refusal, n.Broken, n.Scored, n.Failed, n.Fragile} {
		out = append(out, strconv.Itoa(v))
	}
	return out
}

var countColumns = []string{"planned", "hit", "decoy", "other", "refusal", "broken", "scored", "failed", "fragile"}

func (x *exported) conditionRows() [][]string {
	head := append([]string{"condition", "stage", "scope", "control_of", "pool", "heads"}, countColumns...)
	head = append(head, metricColumns("recall", "margin", "sum_logprob", "margin_change", "sum_logprob_change")...)
	rows := [][]string{append(head, "mcnemar_lost", "mcnemar_gained", "mcnemar_p", "equivalent", "predicted_score_change", "measured_score_change", "predicted_drop", "unpredicted")}
	for i := range x.r.Conditions {
		c := &x.r.Conditions[i]
		m := &c.Metrics
		row := append([]string{c.Name, c.Stage, string(c.Scope), c.ControlOf, c.Pool, c.Heads.String()}, countCells(&c.N)...)
		for _, v := range []*Metric{&m.Recall, &m.Margin, &m.SumLogProb, m.MarginChange, m.Change} {
			row = append(row, metricCells(v)...)
		}
		tests := []string{"", "", "", ""}
		if p := m.McNemar; p != nil {
			tests[0], tests[1], tests[2] = strconv.Itoa(p.Lost), strconv.Itoa(p.Gained), csvNumber(float64(p.P))
		}
		if m.Equivalence != nil {
			tests[3] = strconv.FormatBool(m.Equivalence.Equivalent)
		}
		ledger := []string{"", "", "", c.Unpredicted}
		if p := c.Predicted; p != nil {
			ledger[0], ledger[1], ledger[2] = csvNumber(float64(p.Score)), csvNumber(float64(p.Measured)), csvNumber(float64(p.Drop))
		}
		rows = append(rows, append(append(row, tests...), ledger...))
	}
	return rows
}

func (x *exported) effectRows() [][]string {
	rows := [][]string{{"condition", "pool", "primary", "metric", "controls", "at_least", "drop", "mean_control_drop", "largest_control_drop", "p", "reason"}}
	for _, e := range x.r.Effects {
		p := ""
		if e.P != nil {
			p = csvNumber(float64(*e.P))
		}
		rows = append(rows, []string{
			e.Condition, e.Pool, strconv.FormatBool(e.Primary), e.Metric, strconv.Itoa(e.Controls), strconv.Itoa(e.AtLeast), csvNumber(float64(e.Drop)),
			csvNumber(float64(e.ControlDrop)), csvNumber(float64(e.LargestControl)), p, e.Reason,
		})
	}
	return rows
}

func (x *exported) gridRows() [][]string {
	head := append([]string{"template", "depth", "tokens"}, countColumns...)
	rows := [][]string{append(head, metricColumns("recall", "margin", "sum_logprob")...)}
	for i := range x.r.Grid {
		c := &x.r.Grid[i]
		row := append([]string{c.Template, csvNumber(float64(c.Depth)), strconv.Itoa(c.Tokens)}, countCells(&c.N)...)
		for _, m := range []*Metric{&c.Recall, &c.Margin, &c.SumLogProb} {
			row = append(row, metricCells(m)...)
		}
		rows = append(rows, row)
	}
	return rows
}

func (x *exported) trialRows() [][]string {
	rows := [][]string{{"stage", "unit", "prompt", "template", "depth", "variant", "tokens", "condition", "outcome", "sum_logprob", "margin", "min_gap",
		"fragile", "verified", "first_token", "substring", "exact", "rouge1", "answer", "greedy_text", "error"}}
	for i := range x.stages {
		s := &x.stages[i]
		for j := range s.trials {
			t, p := &s.trials[j], &s.prompts[j/len(s.conds)]
			scores := []string{"", "", "", ""}
			if t.Scores != nil {
				b := strconv.FormatBool
				scores = []string{b(t.Scores.FirstToken), b(t.Scores.Substring), b(t.Scores.Exact), csvNumber(float64(t.Scores.Rouge1))}
			}
			row := []string{t.Stage, strconv.Itoa(t.Unit), t.Prompt, p.Template, csvNumber(float64(p.Depth)), p.Variant, strconv.Itoa(len(p.IDs)), t.Condition,
				string(t.Outcome), csvNumber(float64(t.Sum)), csvNumber(float64(t.Margin)), csvNumber(float64(t.MinGap)), strconv.FormatBool(t.Fragile), strconv.FormatBool(t.Verified)}
			rows = append(rows, append(append(row, scores...), p.Text, t.Text, t.Error))
		}
	}
	return rows
}

// npzStage names what stands along the axes of a stage's arrays.
type npzStage struct {
	Conditions []string `json:"conditions"` // axis 0
	Prompts    []string `json:"prompts"`    // axis 1
}

// npzNames is the archive's names.json.
type npzNames struct {
	Key       string              `json:"key"`
	Model     string              `json:"model"`
	Detectors []string            `json:"detectors"`
	Stages    map[string]npzStage `json:"stages"`
	npzParts
}

// entries are the arrays: scores/DETECTOR [layers, heads], detected [n, 2], and for each stage STAGE/sum_logprob, STAGE/margin and
// STAGE/hit, all [conditions, prompts]: NaN, and hit -1, where a trial failed, has no such number, or was not decoded. Results that have
// them add bands/angle, recall and drop [bands]; depths/ and depth_groups/ recall, margin and sum_logprob [conditions, depths]; keep/share
// [sizes], keep/recall and primary [sizes, pools]; texts/nll [conditions], a token's, and texts/document_nll [conditions, documents], summed.
func (x *exported) entries() ([]npz.Entry, error) {
	names := npzNames{Key: x.r.Key, Model: x.r.Model.Ref, Detectors: []string{}, Stages: map[string]npzStage{}}
	var out []npz.Entry
	for _, s := range x.scores() {
		names.Detectors = append(names.Detectors, s.Detector)
		out = append(out, npz.Entry{Name: "scores/" + s.Detector, Shape: []int{s.Layers, s.Heads}, Data: s.Data})
	}
	flat := []int32{}
	for _, h := range x.r.Heads {
		flat = append(flat, int32(h.Layer), int32(h.Index))
	}
	out = append(out, npz.Entry{Name: "heads", Shape: []int{len(x.r.Heads), 2}, Data: flat})
	for i := range x.stages {
		s := &x.stages[i]
		c, p := len(s.conds), len(s.prompts)
		sums, margins, hits := make([]float64, c*p), make([]float64, c*p), make([]int32, c*p)
		for j := range s.trials {
			t, k := &s.trials[j], j%c*p+j/c
			sums[k], margins[k] = float64(t.Sum), float64(t.Margin)
			switch t.Outcome {
			case Hit:
				hits[k] = 1
			case Failed, Scored:
				hits[k] = -1
			}
		}
		ids := make([]string, p)
		for j := range s.prompts {
			ids[j] = s.prompts[j].ID
		}
		names.Stages[s.name] = npzStage{s.conds, ids}
		shape := []int{c, p}
		out = append(out, npz.Entry{Name: s.name + "/sum_logprob", Shape: shape, Data: sums}, npz.Entry{Name: s.name + "/margin", Shape: shape, Data: margins},
			npz.Entry{Name: s.name + "/hit", Shape: shape, Data: hits})
	}
	parts, partNames := x.partEntries()
	out, names.npzParts = append(out, parts...), partNames
	data, err := json.MarshalIndent(names, "", " ")
	if err != nil {
		return nil, fmt.Errorf("names: %w", err)
	}
	return append(out, npz.Entry{Name: "names.json", Data: append(data, '\n')}), nil
}
