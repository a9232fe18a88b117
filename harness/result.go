package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Result is what a run writes: the plan that made it and what came out. Field order is fixed, so that two results can be compared with
// diff.
type Result struct {
	Schema  int      `json:"schema"`
	Tool    Tool     `json:"tool"`
	Verb    string   `json:"verb"`
	Command []string `json:"command"`
	Plan    *Plan    `json:"plan"`
	Key     string   `json:"key"`

	TrialsSHA256 string `json:"trials_sha256,omitempty"` // of the trials file that the numbers were computed from

	Model    ModelInfo  `json:"model"`
	Prompts  PromptInfo `json:"prompts"`
	InSample *bool      `json:"in_sample,omitempty"` // heads were detected on prompts that they are tested on
	N        Counts     `json:"n"`                   // trials of all stages

	Metrics    *Metrics          `json:"metrics,omitempty"` // of the unmodified model
	Heads      heads.Ranking     `json:"heads"`             // detected, or given; best first
	Scores     *heads.Scores     `json:"scores,omitempty"`  // argmax_last; the others are in detection
	Detection  *Detection        `json:"detection,omitempty"`
	Agreement  *Agreement        `json:"agreement,omitempty"` // of the detectors with the causal map
	Conditions []ConditionResult `json:"conditions"`
	Controls   []Controls        `json:"controls,omitempty"` // one a pool
	Modes      []ModeResult      `json:"modes,omitempty"`    // of the knock-out, side by side
	Means      *MeansInfo        `json:"means,omitempty"`    // what those of mode mean are over
	Effects    []Effect          `json:"effects,omitempty"`  // against the controls, one a scope and pool
	Bands      *BandsResult      `json:"bands,omitempty"`
	Grid       []GridCell        `json:"grid,omitempty"`   // the unmodified model by template and depth
	Depths     []DepthResult     `json:"depths,omitempty"` // conditions of the swap stage by depth, the unmodified model first
	Keep       *KeepResult       `json:"keep,omitempty"`
	Texts      []TextResult      `json:"texts,omitempty"` // plain texts, the unmodified model first
	Templates  []TemplateResult  `json:"templates,omitempty"`
	Variants   []VariantResult   `json:"variants,omitempty"` // the unmodified model without the needle
	Refused    []PromptFailure   `json:"refused,omitempty"`  // prompts that could not be made for this tokenizer
	Example    *Example          `json:"example,omitempty"`  // what the best heads look at in one prompt

	Environment Environment     `json:"environment"`
	Seconds     float64         `json:"seconds"`
	Failures    []PromptFailure `json:"failures"`

	Path string `json:"-"` // where it was written
}

// Tool says which build made a result.
type Tool struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	GitCommit string `json:"git_commit"`
	GitDirty  *bool  `json:"git_dirty"` // null: not known
}

// ModelInfo describes the checkpoint.
type ModelInfo struct {
	Ref             string `json:"ref"`
	Revision        string `json:"revision,omitempty"`
	Family          string `json:"family"`
	Layers          int    `json:"layers"`
	Heads           int    `json:"heads"`
	KVHeads         int    `json:"kv_heads"`
	HeadDim         int    `json:"head_dim"`
	ConfigSHA256    string `json:"config_sha256"`
	TokenizerSHA256 string `json:"tokenizer_sha256"`
	WeightsSHA256   string `json:"weights_sha256"`
}

// PromptInfo describes the prompts of the last stage.
type PromptInfo struct {
	Source       string `json:"source"`
	DetectSource string `json:"detect_source,omitempty"`
	N            int    `json:"n"`
	Limit        int    `json:"limit,omitempty"` // of the file's prompts; absent when all were used
	Shortest     int    `json:"shortest"`        // tokens
	Longest      int    `json:"longest"`

	Generated *NeedleOptions `json:"generated,omitempty"` // how they were made; absent for prompts of a file
	Made      *needle.Report `json:"made,omitempty"`      // what became of that: lengths, refusals, the hash of a haystack
}

// Counts are trials by outcome.
type Counts struct {
	Planned int `json:"planned"`
	Hit     int `json:"hit"`
	Decoy   int `json:"decoy"`
	Other   int `json:"other"`
	Refusal int `json:"refusal"`
	Broken  int `json:"broken"`
	Scored  int `json:"scored"` // not decoded: outcome not known
	Failed  int `json:"failed"`
	Fragile int `json:"fragile"` // of those not failed: a greedy token led by less than the bound between program shapes
}

func (c *Counts) add(t *Trial) {
	c.Planned++
	if t.Fragile {
		c.Fragile++
	}
	switch t.Outcome {
	case Hit:
		c.Hit++
	case Decoy:
		c.Decoy++
	case Other:
		c.Other++
	case Refusal:
		c.Refusal++
	case Broken:
		c.Broken++
	case Scored:
		c.Scored++
	case Failed:
		c.Failed++
	}
}

// Metric is a number with its interval, its method and the number of things it is of. What is undefined is null, with the reason.
type Metric struct {
	Value  Number `json:"value"`
	Low    Number `json:"low"`
	High   Number `json:"high"`
	Method string `json:"method"`
	Of     int    `json:"of"`
	Reason string `json:"reason,omitempty"`
}

func undefined(method, reason string) Metric {
	nan := Number(math.NaN())
	return Metric{nan, nan, nan, method, 0, reason}
}

func metricOf(e stats.Estimate, method string, of int) Metric {
	m := Metric{Number(e.Value.Or(math.NaN())), Number(e.Lo), Number(e.Hi), method, of, ""}
	if of == 1 {
		m.Low, m.High, m.Reason = nan, nan, "one trial gives no interval"
	}
	if e.Why != "" {
		m.Reason = "no pair of trials is left, or one of them is not a number"
	}
	return m
}

// Metrics are the numbers of one condition.
type Metrics struct {
	Recall       Metric        `json:"recall"`
	Flipped      *[2]int       `json:"recall_hits_if_fragile_flip,omitempty"` // fewest and most hits, had every fragile trial gone the other way
	Margin       Metric        `json:"margin"`                                // log-probability of the answer minus the decoy's: the primary outcome
	SumLogProb   Metric        `json:"sum_logprob"`                           // of the answer's tokens, natural logarithm, mean over prompts
	MarginChange *Metric       `json:"margin_change,omitempty"`               // against the unmodified model, same prompts
	Change       *Metric       `json:"sum_logprob_change,omitempty"`
	Equivalence  *Equivalence  `json:"equivalence,omitempty"` // of the primary outcome's change with none
	McNemar      *Paired       `json:"mcnemar,omitempty"`
	Scorers      *ScorerShares `json:"scorers,omitempty"`
}

// Paired is the exact test of hits against the unmodified model's. It speaks about prompts only: not about other heads.
type Paired struct {
	Lost   int    `json:"lost"`   // hits of the unmodified model that are gone
	Gained int    `json:"gained"` // the other way
	P      Number `json:"p"`      // two-sided; null without a pair
	Log10P Number `json:"log10_p"`
	Of     int    `json:"of"`    // pairs
	About  string `json:"about"` // "prompts only"
}

// ConditionResult is one condition over all prompts.
type ConditionResult struct {
	Name      string         `json:"name"`
	Stage     string         `json:"stage"`
	Edits     []decoder.Edit `json:"edits"`
	Heads     heads.Set      `json:"heads"`
	Scope     decoder.Scope  `json:"scope,omitempty"`
	ControlOf string         `json:"control_of,omitempty"`
	Pool      string         `json:"pool,omitempty"`  // that a control was drawn from
	NoOp      string         `json:"no_op,omitempty"` // why it counts as having done nothing: see Plan.noOp
	N         Counts         `json:"n"`
	Metrics   Metrics        `json:"metrics"`

	Predicted   *Prediction `json:"predicted,omitempty"`   // by the score ledger, from the unmodified model; absent where it was not asked
	Unpredicted string      `json:"unpredicted,omitempty"` // why it says nothing
}

// Effect compares a knock-out with its matched controls: would other heads have done the same?
type Effect struct {
	Condition      string  `json:"condition"`
	Pool           string  `json:"pool"`
	Primary        bool    `json:"primary"` // what the plan declares as its hypothesis
	Metric         string  `json:"metric"`
	Controls       int     `json:"controls"`
	AtLeast        int     `json:"at_least"` // controls with a drop at least as large
	Drop           Number  `json:"drop"`
	ControlDrop    Number  `json:"mean_control_drop"`
	LargestControl Number  `json:"largest_control_drop"`
	P              *Number `json:"p"` // head-set randomisation, one-sided; null where reason says why
	Reason         string  `json:"reason,omitempty"`
	Method         string  `json:"method"`
}

// collect fills in what does not depend on the stages.
func collect(o *Options, p *Plan, key string) *Result {
	s := &o.Checkpoint.Spec
	return &Result{
		Schema: schemaVersion, Tool: CurrentTool(), Verb: o.Verb, Command: append([]string{}, o.Command...), Plan: p, Key: key,
		Model: ModelInfo{
			o.Checkpoint.Ref, o.Checkpoint.Revision, s.Family, s.Layers, s.Heads, s.KVHeads, s.HeadDim,
			p.Model.ConfigSHA256, p.Model.TokenizerSHA256, p.Model.WeightsSHA256,
		},
		Environment: CurrentEnvironment(o.Model.Backend()), Refused: o.Refused,
		Heads: heads.Ranking{}, Failures: []PromptFailure{}, Conditions: []ConditionResult{},
	}
}

// write stores the result under its key, whole or not at all.
func (r *Result) write(path string, seconds time.Duration) error {
	r.Seconds = math.Round(seconds.Seconds()*10) / 10
	data, err := r.JSON()
	if err != nil {
		return err
	}
	r.Path = path
	return writeWhole(path, data)
}

// JSON is the form in which a result is stored.
func (r *Result) JSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return buf.Bytes(), nil
}

// modelInfo is also what the heading of a table says.
func (m ModelInfo) String() string {
	return fmt.Sprintf("%d layers x %d heads (%d kv)", m.Layers, m.Heads, m.KVHeads)
}

// Failed tells whether some trials could not be carried out.
func (r *Result) Failed() bool { return r.N.Failed > 0 }

func promptInfo(o *Options, prompts []PromptRecord) PromptInfo {
	info := PromptInfo{Source: o.Prompts.Source, Generated: o.Prompts.Generated, Made: o.Prompts.made}
	if o.DetectPrompts != nil {
		info.DetectSource = o.DetectPrompts.Source
	}
	if o.Prompts.Total > len(prompts) {
		info.Limit = len(prompts)
	}
	info.measure(prompts)
	return info
}

// measure counts the prompts and their tokens.
func (p *PromptInfo) measure(prompts []PromptRecord) {
	p.N, p.Shortest, p.Longest = len(prompts), math.MaxInt, 0
	for i := range prompts {
		n := len(prompts[i].IDs)
		p.Shortest, p.Longest = min(p.Shortest, n), max(p.Longest, n)
	}
	if len(prompts) == 0 {
		p.Shortest = 0
	}
	if p.Limit > 0 {
		p.Limit = len(prompts)
	}
}
