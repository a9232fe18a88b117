package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/headscope/headscope/heads"
)

const headListAdvice = "give L18H6,L8H0 or [[18,6],[8,0]], each head once, or a file of such a list, a result, or another format of docs/head-lists.md"

// GivenHeads are heads to knock out and what their source says of others.
type GivenHeads struct {
	Heads     heads.Ranking // best first
	Exclude   heads.Set     // no controls for them: the heads themselves and, from a result, whatever its detectors flag
	WriteNorm *heads.Scores // of all heads, from a result; nil = not known

	Weights    string       // sha256 of the weights that they were found in, from a result; "" = not known
	DetectedOn *PlanPrompts // the prompts that they were detected on, from a result; nil = not known
}

// ReadHeads reads heads to knock out: a file (any that heads.DecodeRanking reads) or a list as text.
func ReadHeads(list string) (*GivenHeads, error) {
	ranking, listErr := heads.ParseRanking(list)
	if listErr == nil {
		return &GivenHeads{Heads: ranking, Exclude: ranking.Set()}, nil
	}
	data, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil, usagef(headListAdvice, "heads %q: no such file, nor a list: %w", list, listErr)
	}
	if err != nil {
		return nil, err
	}
	if ranking, err = heads.DecodeRanking(data); err != nil {
		return nil, &hintError{fmt.Errorf("%s: %w", list, err), headListAdvice}
	}
	given := &GivenHeads{Heads: ranking, Exclude: ranking.Set()}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return given, nil
	}
	var r struct {
		Schema    int        `json:"schema"`
		Detection *Detection `json:"detection"`
		Plan      *Plan      `json:"plan"`
	}
	if err := heads.DecodeJSON(data, &r); err != nil { // published profiles hold bare NaN
		return nil, &hintError{fmt.Errorf("%s: %w", list, err), headListAdvice}
	}
	if r.Schema > schemaVersion {
		return nil, &hintError{fmt.Errorf("%s: schema %d, want at most %d", list, r.Schema, schemaVersion), "a newer headscope wrote it"}
	}
	if r.Plan != nil {
		given.Weights = r.Plan.Model.WeightsSHA256
	}
	if r.Detection != nil {
		given.Exclude = given.Exclude.Union(r.Detection.flagged())
		if s, ok := r.Detection.Score("write_norm"); ok {
			given.WriteNorm = &s
		}
		if r.Plan != nil {
			given.DetectedOn = &r.Plan.Prompts
			if r.Plan.DetectPrompts != nil {
				given.DetectedOn = r.Plan.DetectPrompts
			}
		}
	}
	return given, nil
}

// strongest is the share of all heads that a detector without a threshold of its own flags.
const strongest = 0.05

// flagged is what any detector calls out of the ordinary, none of it fit for a control: heads with argmax_last, argmax_code or copy_tf at
// or above the threshold or one hit short of it, and the strongest twentieth by mass_last, induction and duplicate, and by direct and causal effect where these were measured.
func (d *Detection) flagged() heads.Set {
	var out heads.Set
	for _, name := range []string{"argmax_last", "argmax_code", "copy_tf"} {
		if s, ok := d.Score(name); ok {
			out = out.Union(s.AtLeast(d.Threshold))
		}
	}
	if s, ok := d.Score("argmax_last"); ok && 1/float64(s.N) < d.Threshold {
		out = out.Union(d.Borderline) // else one hit short is no hit
	}
	for _, name := range []string{"mass_last", "induction", "duplicate", "locos", "locos_logit", "logit_attr", "causal"} {
		if s, ok := d.Score(name); ok {
			out = out.Union(s.TopShare(strongest))
		}
	}
	return out
}
