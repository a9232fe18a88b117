package harness

import "github.com/headscope/headscope/heads"

// PromptRecord is a prompt as the trials file holds it: all that the aggregates need to know of it, so that they can be computed
// again without a model or a tokenizer.
type PromptRecord struct {
	ID       string     `json:"id"`
	Set      string     `json:"set"` // test, detect or agreement
	Template string     `json:"template,omitempty"`
	Kind     string     `json:"kind,omitempty"`
	Depth    Number     `json:"depth"` // null where not known
	Variant  string     `json:"variant,omitempty"`
	IDs      []int32    `json:"ids"`
	Needle   heads.Span `json:"needle"` // token spans
	Code     heads.Span `json:"code"`
	Question int        `json:"question"`
	Text     string     `json:"answer"`
	Answer   []int32    `json:"answer_ids"`
	Decoy    []int32    `json:"decoy_ids,omitempty"`
	NoCopy   string     `json:"no_copy_tf,omitempty"`
	NoDecoy  string     `json:"no_decoy,omitempty"`
	TextSum  string     `json:"text_sha256"` // of the prompt's text
}

// Sets of prompts.
const (
	setTest   = "test"
	setDetect = "detect"
)

func recordOf(p *Prompt, set string) PromptRecord {
	s := p.Spec
	r := PromptRecord{
		ID: s.ID, Set: set, Template: s.Template, Kind: s.Kind, Depth: Number(s.Depth), Variant: s.Variant, IDs: p.IDs, Needle: p.Needle, Code: p.Code,
		Question: p.Question, Text: s.Answer, Answer: p.Answer, Decoy: p.Decoy, NoCopy: p.NoCopy, NoDecoy: p.NoDecoy, TextSum: sumOf(s.Text),
	}
	if s.Depth < 0 {
		r.Depth = nan
	}
	return r
}

func recordsOf(tests, detects []*Prompt, same bool) []PromptRecord {
	var out []PromptRecord
	for _, p := range tests {
		out = append(out, recordOf(p, setTest))
	}
	if !same {
		for _, p := range detects {
			out = append(out, recordOf(p, setDetect))
		}
	}
	return out
}

// sharedRecords tells whether a text stands in both sets.
func sharedRecords(a, b []PromptRecord) bool {
	have := map[string]bool{}
	for i := range a {
		have[a[i].TextSum] = true
	}
	for i := range b {
		if have[b[i].TextSum] {
			return true
		}
	}
	return false
}
