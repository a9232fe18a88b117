package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/headscope/headscope/heads"
)

// sameNumbers is how far apart, of their size, two numbers may be that are the same: an architecture that fuses multiplication and
// addition rounds the last bits of a mean otherwise. On one machine the difference is 0.
const sameNumbers = 1e-12

// Check is what came of computing a stored result again.
type Check struct {
	Path     string         `json:"path"`
	Trials   string         `json:"trials"`
	Sections []CheckSection `json:"sections"`
	Left     []Unchecked    `json:"not_recomputed,omitempty"`
	OK       bool           `json:"ok"`
}

// Unchecked is what only a run of the model can say.
type Unchecked struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// CheckSection is one part of a result.
type CheckSection struct {
	Name   string       `json:"name"`
	Values int          `json:"values"` // compared
	Differ []Difference `json:"differ"`
}

// Difference is a value that the file states otherwise than its trials say.
type Difference struct {
	Path string `json:"path"` // in the result, such as conditions[3].metrics.recall.value
	File string `json:"file"`
	Want string `json:"recomputed"`
}

// Recheck computes a stored result again, from its plan and from the trials file beside it, and compares every field. No model, no
// tokenizer and no device is needed. What only the run can know (command, environment, seconds, where the model lay) is left alone. A
// difference is not an error.
func Recheck(path string) (*Check, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := decodeResult(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t, err := readTrials(TrialsOf(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &hintError{fmt.Errorf("%s: its trials are missing: %w", path, err), "keep VERB_KEY.trials.jsonl beside VERB_KEY.json: every number is computed from it"}
	}
	if err != nil {
		return nil, err
	}
	if t.torn > 0 {
		return nil, &DamagedError{t.path, fmt.Sprintf("%d bytes behind the last whole trial", t.torn)}
	}
	c := &Check{Path: path, Trials: t.path}
	if err := c.plan(r, t); err != nil {
		return nil, err
	}
	if c.failed() {
		return c, nil // the trials of another plan say nothing of this result
	}
	again, err := recompute(r, t)
	if err != nil {
		return nil, err
	}
	if err := c.fields(data, again); err != nil {
		return nil, err
	}
	c.OK = !c.failed()
	return c, nil
}

// plan compares what result and trials say of the run.
func (c *Check) plan(r *Result, t *storedTrials) error {
	s := CheckSection{Name: "plan"}
	for _, p := range []struct {
		name string
		plan *Plan
	}{{"plan", r.Plan}, {t.path + ": plan", t.head.Plan}} {
		key, err := p.plan.Key()
		if err != nil {
			return err
		}
		s.compare("key", r.Key, key+" (hash of the "+p.name+")", r.Key == key)
	}
	s.compare("key", r.Key, t.head.Key+" ("+t.path+")", r.Key == t.head.Key)
	s.compare(t.path+": shard", t.head.Shard, "", t.head.Shard == "")
	shape := Shape{r.Model.Layers, r.Model.Heads, r.Model.KVHeads}
	s.compare("model", fmt.Sprint(shape), fmt.Sprint(t.head.Shape), shape == t.head.Shape)
	m := PlanModel{r.Model.ConfigSHA256, r.Model.TokenizerSHA256, r.Model.WeightsSHA256, r.Plan.Model.EOS}
	s.compare("model", fmt.Sprint(m), fmt.Sprint(r.Plan.Model), slices.Equal([]string{m.ConfigSHA256, m.TokenizerSHA256, m.WeightsSHA256},
		[]string{r.Plan.Model.ConfigSHA256, r.Plan.Model.TokenizerSHA256, r.Plan.Model.WeightsSHA256}))
	c.Sections = append(c.Sections, s)
	return nil
}

func (s *CheckSection) compare(path, file, want string, same bool) {
	s.Values++
	if !same {
		s.Differ = append(s.Differ, Difference{path, file, want})
	}
}

// recompute is the result that the trials make, beside what the stored one alone can know.
func recompute(r *Result, t *storedTrials) (*Result, error) {
	e, err := t.evidence()
	if err != nil {
		return nil, err
	}
	again := &Result{
		Schema: r.Schema, Tool: r.Tool, Verb: r.Plan.Verb, Command: r.Command, Plan: r.Plan, Key: r.Key, Model: r.Model,
		Prompts: r.Prompts, Refused: r.Refused, Environment: r.Environment, Seconds: r.Seconds,
	}
	again.Heads, again.Failures, again.Conditions = heads.Ranking{}, []PromptFailure{}, []ConditionResult{}
	again.TrialsSHA256 = sumOf(string(t.data))
	again.Prompts.measure(e.tests)
	return again, e.fill(again)
}

// fields compares the two results key by key.
func (c *Check) fields(file []byte, again *Result) error {
	data, err := again.JSON()
	if err != nil {
		return err
	}
	got, err := anyJSON(file)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	want, err := anyJSON(data)
	if err != nil {
		return err
	}
	g, _ := got.(map[string]any)
	w, _ := want.(map[string]any)
	for _, name := range keysOf(g, w) {
		switch name {
		case "schema", "tool", "command", "plan", "key", "model", "refused", "environment", "seconds":
			continue
		}
		s := CheckSection{Name: name}
		s.diff(name, g[name], w[name], has(g, name) == has(w, name))
		c.Sections = append(c.Sections, s)
	}
	return nil
}

// Differences lists where two plans say different things: Want is p's, File the other's.
func (p *Plan) Differences(other *Plan) ([]Difference, error) {
	var both [2]any
	for i, x := range []*Plan{other, p} {
		data, err := json.Marshal(x)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		if both[i], err = anyJSON(data); err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
	}
	s := CheckSection{}
	s.diff("plan", both[0], both[1], true)
	return s.Differ, nil
}

func anyJSON(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// keysOf lists the keys of both, each once, in order.
func keysOf(a, b map[string]any) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if !has(a, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// diff compares two JSON values; both says that neither is missing.
func (s *CheckSection) diff(path string, file, want any, both bool) {
	if !both {
		s.compare(path, shortJSON(file), shortJSON(want), false)
		return
	}
	switch w := want.(type) {
	case map[string]any:
		if f, ok := file.(map[string]any); ok {
			for _, k := range keysOf(f, w) {
				s.diff(path+"."+k, f[k], w[k], has(f, k) == has(w, k))
			}
			return
		}
	case []any:
		if f, ok := file.([]any); ok {
			if len(f) != len(w) {
				s.compare(path, fmt.Sprintf("%d elements", len(f)), fmt.Sprintf("%d elements", len(w)), false)
			}
			for i := range min(len(f), len(w)) {
				s.diff(fmt.Sprintf("%s[%d]", path, i), f[i], w[i], true)
			}
			return
		}
	}
	s.compare(path, shortJSON(file), shortJSON(want), sameValue(file, want))
}

func sameValue(a, b any) bool {
	x, ok := a.(json.Number)
	y, both := b.(json.Number)
	if !ok || !both {
		return !ok && !both && isLeaf(a) && isLeaf(b) && a == b
	}
	if x == y {
		return true
	}
	u, errU := strconv.ParseFloat(string(x), 64)
	v, errV := strconv.ParseFloat(string(y), 64)
	return errU == nil && errV == nil && math.Abs(u-v) <= sameNumbers*max(math.Abs(u), math.Abs(v))
}

func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// shortJSON shows a value in at most 60 bytes; nil is null, or a key that is not there.
func shortJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(b) > 60 {
		return string(bytes.ToValidUTF8(b[:57], nil)) + "..."
	}
	return string(b)
}

func (c *Check) failed() bool {
	return slices.ContainsFunc(c.Sections, func(s CheckSection) bool { return len(s.Differ) > 0 })
}

// shownDifferences is how many of a section's differences are printed; JSON has all.
const shownDifferences = 5

// Write prints a line a section, and below it the first of its differences.
func (c *Check) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "%s from %s\n", c.Path, c.Trials)
	values, differ := 0, 0
	for _, s := range c.Sections {
		state := "ok"
		if len(s.Differ) > 0 {
			state = "DIFFERS"
		}
		values, differ = values+s.Values, differ+len(s.Differ)
		fmt.Fprintf(tw, "  %s\t%s\t%d values\n", s.Name, state, s.Values)
		for i, d := range s.Differ {
			if i == shownDifferences {
				fmt.Fprintf(tw, "    and %d more\n", len(s.Differ)-i)
				break
			}
			fmt.Fprintf(tw, "    %s: file %s, recomputed %s\n", d.Path, d.File, d.Want)
		}
	}
	fmt.Fprintf(tw, "%d values compared, %d differ\n", values, differ)
	for _, u := range c.Left {
		fmt.Fprintf(tw, "not recomputed: %s: %s\n", u.Path, u.Why)
	}
	return tw.Flush()
}
