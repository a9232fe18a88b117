package harness

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader/tokenizer"
)

// GeneratedPrompts names prompts that are made for the model's tokenizer.
const GeneratedPrompts = "needle"

// NeedleOptions asks for generated needle prompts. Zero values mean what their comments say.
type NeedleOptions struct {
	Seed       uint64    `json:"seed"`
	N          int       `json:"n"`                   // prompts of each split
	Tokens     int       `json:"tokens"`              // of a prompt, everything included
	CodeTokens int       `json:"code_tokens"`         // of every code; 0 = 4
	Templates  []string  `json:"templates,omitempty"` // nil: all
	Depths     []float64 `json:"depths,omitempty"`    // nil: .1, .25, .5, .75, .9
	Haystack   string    `json:"haystack,omitempty"`  // file or folder of text; empty: generated sentences
	Chat       string    `json:"chat"`                // auto, plain or chat; empty: auto
	Variants   bool      `json:"variants"`            // also the test prompts without needle, decoy or both
	Donors     bool      `json:"donors,omitempty"`    // with the same prompt holding another code
}

// Generated are the disjoint splits, and what could not be made.
type Generated struct {
	Test, Detect, Agreement *PromptFile // nil: not asked for
	Refused                 []PromptFailure
	Reports                 []needle.Report // of the splits made, in that order
}

// GeneratePrompts makes prompts for a tokenizer. The splits share no code, sentence, subject or wording; only those asked for are made.
func GeneratePrompts(ctx context.Context, tok *tokenizer.Tokenizer, g NeedleOptions, splits ...needle.Split) (*Generated, error) {
	if tok == nil {
		return nil, errNoTokenizer()
	}
	var stock *needle.Haystack
	var err error
	if g.Haystack != "" {
		if stock, err = needle.LoadHaystack(g.Haystack); err != nil {
			return nil, err
		}
	}
	out := &Generated{}
	for _, split := range []struct {
		name needle.Split
		to   **PromptFile
	}{{needle.Test, &out.Test}, {needle.Detect, &out.Detect}, {needle.Agreement, &out.Agreement}} {
		if !slices.Contains(splits, split.name) {
			continue
		}
		specs, err := needle.Specs(needle.Options{Seed: g.Seed, Split: split.name, N: g.N, Templates: g.Templates, Depths: g.Depths, Haystack: stock})
		if err != nil {
			return nil, &UsageError{err, "`headscope help prompts` lists templates and limits"}
		}
		o := needle.RealiseOptions{Tokens: g.Tokens, CodeTokens: g.CodeTokens, Chat: needle.Chat(g.Chat), Donors: g.Donors}
		if g.Variants && split.name == needle.Test {
			o.Variants = []needle.Variant{needle.Base, needle.NoDecoy, needle.DecoyOnly, needle.Absent}
		}
		set, err := needle.Realise(ctx, tok, specs, o)
		if err != nil && strings.Contains(err.Error(), "chat template") {
			return nil, &hintError{err, "give --chat plain for plain text, or --prompts FILE in the model's own format"}
		}
		if err != nil {
			return nil, err
		}
		if *split.to, err = promptFileOf(&g, set); err != nil {
			return nil, err
		}
		out.Reports = append(out.Reports, set.Report)
		for _, r := range set.Refusals {
			out.Refused = append(out.Refused, PromptFailure{r.ID, r.Reason})
		}
	}
	return out, nil
}

// promptFileOf is the set as if it had been written to a file and read again, so that both have the same hash.
func promptFileOf(g *NeedleOptions, set *needle.Set) (*PromptFile, error) {
	if len(set.Prompts) == 0 {
		return nil, &hintError{fmt.Errorf("no prompt could be made: %d were refused, the first: %s", len(set.Refusals), set.Refusals[0]),
			"change --tokens or --code-tokens"}
	}
	var b bytes.Buffer
	if err := needle.WriteJSONL(&b, set.Prompts); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s:%d:%s:%s", GeneratedPrompts, g.Tokens, set.Report.Chat, set.Prompts[0].Split)
	f, err := parsePrompts(name, b.Bytes())
	if err == nil {
		f.Generated, f.made = g, &set.Report
	}
	return f, err
}
