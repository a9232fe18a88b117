package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// DetectorInfo is what a detector is, in a line each.
type DetectorInfo struct {
	Name   string `json:"name"`
	About  string `json:"about"`  // what it measures, and over what it is averaged
	Source string `json:"source"` // who published it
	Stage  string `json:"stage"`  // that its rows come from
}

// Detectors lists every detector in the order in which results have them. Those of stages detect and repeat come with every detection, the others
// are asked for by name.
func Detectors() []DetectorInfo {
	return []DetectorInfo{
		{"argmax_last", "share of prompts whose last row has its largest weight in the needle", "published retrieval-head profiles", StageDetect},
		{"mass_last", "mean over prompts of the last row's weight on the needle", "published retrieval-head profiles", StageDetect},
		{"argmax_code", "share of prompts whose last row has its largest weight on the answer's tokens in the needle", "headscope", StageDetect},
		{"copy_tf", "share of fed answer tokens whose row has its largest weight on that very token in the needle", "published retrieval-head profiles", StageDetect},
		{"write_norm", "mean over prompts of the norm of what the head adds to the residual at the answer's rows", "headscope", StageDetect},
		{"induction", "mean weight on the token after the same token's first occurrence, of random tokens written twice", "TransformerLens", StageRepeat},
		{"duplicate", "mean weight on the same token's first occurrence, of random tokens written twice", "TransformerLens", StageRepeat},
		{"prev_token", "mean weight on the token before, of random tokens written twice", "TransformerLens", StageRepeat},
		{"argmax_nosink", "argmax_last with the first token left out and the row normalised anew", "headscope", StageObserve},
		{"select", "share of prompts whose last row has its largest weight on the asked code, minus the share where it is on the decoy's code", "headscope", StageObserve},
		{"qr_raw", "mean over the question's rows of the weight on the needle, mean over prompts", "Zhang et al. 2025, paper", StageObserve},
		{"qr_cal", "qr_raw minus the same under a null query, without needle tokens two standard deviations below the mean", "Zhang et al. 2025, code", StageObserve},
		{"wu_step", "decoding steps that copy from the needle over its length, mean over prompts that were answered", "Wu et al. 2024, code", StageObserve},
		{"wu_set", "different tokens copied from the needle over its different tokens, mean over prompts that were answered", "Wu et al. 2024, paper", StageObserve},
		{"locos", "what the head writes towards the decoded answer's tokens from the needle minus what it writes from as many other keys", "Gema et al. 2026, code", StageObserve},
		{"locos_logit", "locos at the fed answer's rows of every prompt, through the final norm, logits", "headscope, after Gema et al. 2026", StageObserve},
		{"logit_attr", "what the head adds to the answer's logit minus the decoy's, logits", "direct logit attribution (Elhage et al. 2021)", StageObserve},
		{"causal", "drop of the answer's log-probability with this head alone at 0 from the last prompt row on, nats", "headscope", StageCausal},
	}
}

// Groups of detectors that may stand for their names.
const (
	DetectorsBasic = "basic" // those of every detection
	DetectorsAll   = "all"
)

// parseDetectors checks the names beyond the basic ones and brings them into the order of Detectors.
func parseDetectors(names []string) ([]string, error) {
	asked := map[string]bool{}
	for _, name := range names {
		asked[strings.TrimSpace(name)] = true
	}
	var out, extra []string
	for _, d := range Detectors() {
		basic := d.Stage == StageDetect || d.Stage == StageRepeat
		if !basic {
			extra = append(extra, d.Name)
			if asked[d.Name] || asked[DetectorsAll] {
				out = append(out, d.Name)
			}
		}
		delete(asked, d.Name)
	}
	delete(asked, DetectorsAll)
	delete(asked, DetectorsBasic)
	for name := range asked {
		return nil, usagef("give basic, all, or names of "+strings.Join(extra, ", "), "detector %q is unknown", name)
	}
	return out, nil
}

// asks tells whether one of the named detectors is to be run.
func (d *PlanDetect) asks(names ...string) bool {
	return d != nil && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(d.Detectors, n) })
}

// observes tells whether the stage of that name has detectors to run.
func (d *PlanDetect) observes(stage string) bool {
	return slices.ContainsFunc(Detectors(), func(i DetectorInfo) bool { return i.Stage == stage && d.asks(i.Name) })
}

// furtherStages lists the stages behind the detect stage's own that have detectors to run, in the order in which they run.
func (d *PlanDetect) furtherStages() []string {
	return slices.DeleteFunc([]string{StageObserve, StageCausal}, func(s string) bool { return !d.observes(s) })
}

// scoreHeads runs the stages of further detectors.
func (s *Study) scoreHeads(ctx context.Context, r *runner, e *evidence) (err error) {
	for _, stage := range s.Plan.Detect.furtherStages() {
		switch stage {
		case StageObserve:
			e.trials[stage], err = r.observed(ctx, s.detects, e.trials[StageDetect])
		case StageCausal:
			e.trials[stage], err = r.causal(ctx, e, s.detects)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkDetectors refuses what the stages of further detectors cannot be asked.
func (o *Options) checkDetectors() error {
	names, err := parseDetectors(o.Detectors)
	switch {
	case err != nil:
		return err
	case len(names) > 0 && !slices.Contains(o.Stages, StageDetect):
		return usagef("run the detect stage too", "detectors %s without the detect stage", strings.Join(names, ", "))
	case len(names) > 0 && len(o.Edits) > 0:
		return usagef("leave --detectors or --edit out", "detectors %s are of the unmodified model", strings.Join(names, ", "))
	}
	o.Detectors = names
	return o.checkAgreement()
}

// checkAgreement refuses a causal map that would not be of other prompts, or not of the model that is detected on.
func (o *Options) checkAgreement() error {
	if o.AgreementPrompts == nil {
		return nil
	}
	seen := planPrompts(o.Prompts)
	if o.DetectPrompts != nil {
		seen = planPrompts(o.DetectPrompts)
	}
	mapped := planPrompts(o.AgreementPrompts)
	switch {
	case !slices.Contains(o.Stages, StageDetect):
		return usagef("run the detect stage too", "agreement without the detect stage")
	case len(o.Edits) > 0:
		return usagef("leave --agreement or --edit out", "the causal map is of the unmodified model")
	case mapped.overlaps(&seen):
		return usagef("give other prompts", "heads would be detected on prompts that the causal map is of")
	}
	return nil
}

// aboutContrast says what logit_attr measures on these prompts: one without a decoy of as many tokens makes it the answer alone.
func aboutContrast(decoys bool) string {
	if decoys {
		return "the answer's logit minus the decoy's"
	}
	return fmt.Sprintf("the answer's logit minus the mean logit of the vocabulary: %s", "not every prompt has a decoy of as many tokens")
}
