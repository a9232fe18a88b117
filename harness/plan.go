package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// Stages of a study.
const (
	StageDetect   = "detect"
	StageKnockout = "knockout"
)

// Stages that come with the others: repeated random sequences beside detection, means of head outputs for mode mean, prompts without their needle, and one prompt's
// attention for the report.
const (
	StageRepeat    = "repeat"
	StageMeans     = "means"
	StageVariants  = "variants"
	StageExample   = "example"
	StageObserve   = "observe" // further detectors, see Detectors
	StageCausal    = "causal"
	StageAgreement = "agreement"
)

// Streams of the seed, one a purpose: rand.NewPCG(seed, stream).
const (
	streamControls  = 1
	streamBootstrap = 2
	streamRepeat    = 3
	streamDetectors = 7
)

const (
	schemaVersion = 1
	decodeBatch   = 32 // most answers decoded together
	unitPrompts   = 8  // most prompts of a work unit, rounded up to whole prefill batches
	unitWork      = 1e12
	resamples     = 10000
	level         = 0.95

	repeatSequences = 8
	repeatLength    = 32 // random tokens, written twice
	exampleHeads    = 6
)

// Metrics that can be primary.
const (
	metricMargin = "margin"      // log-probability of the answer minus that of a decoy of as many tokens
	metricSum    = "sum_logprob" // log-probability of the answer, where not every prompt has such a decoy
)

// Plan is everything that decides the numbers of a run, and nothing else: its hash is the run's key. Field order is fixed, so the
// JSON form is canonical.
type Plan struct {
	Schema        int            `json:"schema"`
	Verb          string         `json:"verb"`
	Stages        []string       `json:"stages"`
	Model         PlanModel      `json:"model"`
	Prompts       PlanPrompts    `json:"prompts"`
	DetectPrompts *PlanPrompts   `json:"detect_prompts,omitempty"` // absent: the same prompts, an in-sample study
	Detect        *PlanDetect    `json:"detect,omitempty"`
	Agreement     *PlanAgreement `json:"agreement,omitempty"`
	Knockout      *PlanKnockout  `json:"knockout,omitempty"`
	Bands         *PlanBands     `json:"bands,omitempty"`
	Swap          *PlanSwap      `json:"swap,omitempty"`
	Keep          *PlanKeep      `json:"keep,omitempty"`
	Texts         *PlanTexts     `json:"texts,omitempty"`         // scored beside experiments
	Conditions    []NamedEdits   `json:"conditions,omitempty"`    // asked for by name, beside the knock-outs
	Skipped       heads.Set      `json:"skipped_heads,omitempty"` // of edits of planes and tables, in layers that do not rotate: left out
	Primary       PlanPrimary    `json:"primary"`
	MaxNew        int            `json:"max_new"`
	FullAnswers   bool           `json:"full_answers"`
	Statistics    PlanStats      `json:"statistics"`
	Run           PlanRun        `json:"run"`
}

// PlanPrimary declares, before anything is computed, the one comparison that decides. Everything else is exploratory.
type PlanPrimary struct {
	Hypothesis string        `json:"hypothesis"`
	Metric     string        `json:"metric"`
	Condition  string        `json:"condition,omitempty"` // absent: the knock-out at that scope
	Scope      decoder.Scope `json:"scope,omitempty"`
	Pool       string        `json:"pool,omitempty"`
}

// PlanModel identifies a checkpoint by content.
type PlanModel struct {
	ConfigSHA256    string  `json:"config_sha256"`
	TokenizerSHA256 string  `json:"tokenizer_sha256"`
	WeightsSHA256   string  `json:"weights_sha256"`
	EOS             []int32 `json:"eos"`
}

// PlanPrompts identifies prompts by content and id.
type PlanPrompts struct {
	SHA256 string   `json:"sha256"`
	IDs    []string `json:"ids"`
}

// PlanDetect is the rule that makes a head a retrieval head.
type PlanDetect struct {
	Detector   string         `json:"detector"`
	TieBreaker string         `json:"tie_breaker"`
	Threshold  float64        `json:"threshold"`
	Edits      []decoder.Edit `json:"edits,omitempty"` // in force while detecting
	Repeat     *PlanRepeat    `json:"repeat,omitempty"`
	Detectors  []string       `json:"detectors,omitempty"` // beyond those of every detection
}

// PlanRepeat describes the sequences behind the scores induction, duplicate and prev_token.
type PlanRepeat struct {
	Sequences int    `json:"sequences"`
	Length    int    `json:"length"`
	Stream    uint64 `json:"stream"`
}

// PlanTarget says which heads an experiment is about, and which others its controls may be.
type PlanTarget struct {
	Heads       heads.Ranking `json:"heads,omitempty"`              // given; else those that the detect stage finds
	Unreachable []int         `json:"unreachable_layers,omitempty"` // layers whose window ends before the needle of every prompt
	Exclude     heads.Set     `json:"exclude,omitempty"`
	WriteNorm   *heads.Scores `json:"write_norm,omitempty"`  // sizes to match the controls of given heads on
	DetectedOn  *PlanPrompts  `json:"detected_on,omitempty"` // what given heads were detected on; absent: not known
	Matching    PlanMatching  `json:"matching"`
	Top         int           `json:"top,omitempty"` // only the best so many
}

// PlanControls says at which rows an experiment edits its heads, and with how many matched sets of others they are compared.
type PlanControls struct {
	Controls map[decoder.Scope]int `json:"controls"`         // sets of each pool, by scope
	Decoded  int                   `json:"decoded_controls"` // sets of each pool and scope whose answers are decoded; the others are scored
	Auto     bool                  `json:"auto_controls"`    // their number was left to the plan
	Pools    []string              `json:"pools"`
	Scopes   []decoder.Scope       `json:"scopes"`

	WholePasses []decoder.Scope `json:"whole_passes,omitempty"` // of the scopes, those whose conditions cost a pass over the prompt each
}

// PlanMatching is the rule by which control sets are drawn.
type PlanMatching struct {
	Size         string  `json:"size"`          // what sets are matched on, where it is known
	Candidates   int     `json:"candidates"`    // sets drawn for each one kept
	FlaggedShare float64 `json:"flagged_share"` // of all heads, that detectors without a threshold flag
}

// most is the largest number of control sets of a scope.
func (k *PlanControls) most() int {
	n := 0
	for _, c := range k.Controls {
		n = max(n, c)
	}
	return n
}

// NamedEdits is a condition asked for by the user.
type NamedEdits struct {
	Name  string         `json:"name"`
	Edits []decoder.Edit `json:"edits"`
}

// PlanStats fixes the statistics and their random streams.
type PlanStats struct {
	Seed      uint64  `json:"seed"`
	Controls  uint64  `json:"stream_controls"`
	Bootstrap uint64  `json:"stream_bootstrap"`
	Resamples int     `json:"resamples"`
	Level     float64 `json:"level"`

	Equivalence float64 `json:"equivalence_margin"` // nats: a change of the primary outcome within it is "no effect"
}

// PlanRun is what the last bits depend on.
type PlanRun struct {
	Engine      int    `json:"engine"` // decoder.Engine: raised when programs or batches change
	DType       string `json:"dtype"`
	Device      string `json:"device"` // kind: go, cpu, cuda
	Backend     string `json:"backend"`
	Batch       int    `json:"batch"`        // prompts of a prefill
	DecodeBatch int    `json:"decode_batch"` // answers decoded together
	Unit        int    `json:"unit"`         // prompts written, and redone, together
}

// Key is the first 12 hexadecimal digits of the sha256 of the plan's JSON form.
func (p *Plan) Key() (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:12], nil
}

// newPlan checks the options and fixes what they leave open. tests are the prompts that are tested on.
func newPlan(ctx context.Context, o *Options, tests []*Prompt) (*Plan, error) {
	c, m := o.Checkpoint, o.Model
	weights, err := WeightsSHA256(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Schema: schemaVersion, Verb: o.Verb, Stages: o.Stages,
		Model:   PlanModel{ConfigSHA256: c.ConfigSHA256, TokenizerSHA256: c.Tokenizer.SHA256(), WeightsSHA256: weights, EOS: c.Spec.EOS},
		Prompts: planPrompts(o.Prompts), MaxNew: o.MaxNew, FullAnswers: o.FullAnswers,
		Statistics: PlanStats{o.Seed, streamControls, streamBootstrap, resamples, level, o.Equivalence},
		Run: PlanRun{
			Engine: decoder.Engine, DType: m.DType(), Device: string(m.Backend().Kind), Backend: m.Backend().About,
			Batch: o.Batch, DecodeBatch: decodeBatch, Unit: unitSize(c, o.Prompts, o.Batch),
		},
	}
	if o.DetectPrompts != nil {
		d := planPrompts(o.DetectPrompts)
		p.DetectPrompts = &d
	}
	p.Primary = PlanPrimary{Hypothesis: knockoutHypothesis, Metric: metricMargin}
	for _, t := range tests {
		if t.Decoy == nil {
			p.Primary.Metric = metricSum
		}
	}
	if slices.Contains(o.Stages, StageDetect) {
		p.Detect = &PlanDetect{Detector: "argmax_last", TieBreaker: "mass_last", Threshold: o.Threshold, Edits: decoder.Canonical(o.Edits), Detectors: o.Detectors}
		if len(o.Edits) == 0 && m.Spec.MaxPositions > 2*repeatLength {
			p.Detect.Repeat = &PlanRepeat{repeatSequences, repeatLength, streamRepeat}
		}
	}
	if o.AgreementPrompts != nil {
		p.Agreement = planAgreement(o.AgreementPrompts, Shape{c.Spec.Layers, c.Spec.Heads, c.Spec.KVHeads})
	}
	lists := [][]decoder.Edit{o.Edits}
	for _, c := range o.Conditions {
		lists = append(lists, c.Edits)
	}
	if skipped := skippedHeads(&c.Spec, lists...); len(skipped) > 0 {
		p.Skipped = skipped
	}
	return p, p.addExperiments(o, tests)
}

// unreachableLayers lists the layers whose window ends before the needle of every prompt. Their heads cannot retrieve, whatever they
// would like to: as controls they would only make the others look strong.
func unreachableLayers(s *loader.Spec, tests []*Prompt) []int {
	var out []int
	for l := range s.Layers {
		if !slices.ContainsFunc(tests, func(p *Prompt) bool { return s.Reaches(l, len(p.IDs)-p.Needle[1]) }) {
			out = append(out, l)
		}
	}
	return out
}

// unitSize is how many prompts are written, and after an interruption redone, together. More of them fill the decoding batches; so
// there are unitPrompts of a small model's, and fewer where a unit would be more than about unitWork parameters x tokens.
func unitSize(c *loader.Checkpoint, f *PromptFile, batch int) int {
	parameters, longest := 0, 1
	for _, name := range c.Weights.Names() {
		if info, ok := c.Weights.Info(name); ok {
			parameters += info.Elements()
		}
	}
	for _, s := range f.Specs {
		longest = max(longest, len(s.Text)/4) // four bytes a token, near enough for a size
	}
	n := int(min(unitPrompts, max(1, unitWork/(float64(parameters)*float64(longest)))))
	return (n + batch - 1) / batch * batch
}

func planPrompts(f *PromptFile) PlanPrompts {
	p := PlanPrompts{SHA256: f.SHA256}
	for _, s := range f.Specs {
		p.IDs = append(p.IDs, s.ID)
	}
	return p
}

// overlaps tells whether both name a prompt of one file.
func (p *PlanPrompts) overlaps(o *PlanPrompts) bool {
	return p.SHA256 == o.SHA256 && slices.ContainsFunc(p.IDs, func(id string) bool { return slices.Contains(o.IDs, id) })
}

// paths returns where the run's aggregate and its trials lie.
func (p *Plan) paths(out string, c *loader.Checkpoint, key string) (aggregate, trials string) {
	base := filepath.Join(out, ModelFolder(c), p.Verb+"_"+key)
	return base + ".json", base + ".trials.jsonl"
}

// ModelFolder names a model's results: org__name for a model of the hub cache, else the folder's own name.
func ModelFolder(c *loader.Checkpoint) string {
	if c.Revision != "" && c.Ref != c.Dir {
		name, _, _ := strings.Cut(c.Ref, "@")
		return strings.ReplaceAll(name, "/", "__")
	}
	abs, err := filepath.Abs(c.Dir)
	if err != nil {
		abs = c.Dir
	}
	if name := filepath.Base(abs); name != "." && name != string(filepath.Separator) {
		return strings.ReplaceAll(name, ":", "-") // builtin:needle; scp and others read a colon as a host's end
	}
	return "model"
}
