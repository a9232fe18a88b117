package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headscope/headscope/harness/needle"
)

// BuiltinPrompts names the embedded prompt set: 40 prompts of about 500 tokens in ChatML, each with one five-character code.
const BuiltinPrompts = "builtin:needle512"

//go:embed prompts/smollm2_512.jsonl
var needle512 []byte

// PromptSpec is one line of a prompt file. Spans are byte offsets [start, end) into Text.
type PromptSpec struct {
	ID         string
	Text       string
	Needle     [2]int
	Question   *[2]int // nil: scopes haystack and question are refused
	Answer     string
	AnswerSpan [2]int
	Decoys     []DecoySpec
	Donor      *DonorSpec // nil: patch edits are refused
	AddSpecial *bool      // nil: as the tokenizer does by default

	// What a generator says of the prompt; optional.
	Template string  // wording of needle and question
	Kind     string  // what in the question leads to the needle, as needle.Kinds has it or by any other name; "" = not stated
	Depth    float64 // share of the haystack before the needle; -1 = not known
	Variant  string  // "" = needle and decoy; else asked of the unmodified model only
}

// Variants of a prompt: what the unmodified model answers where the needle, the decoy or both are missing.
const (
	VariantAbsent    = "absent"     // neither
	VariantDecoyOnly = "decoy_only" // no needle
	VariantNoDecoy   = "no_decoy"   // no decoy
)

// DecoySpec is a wrong answer that stands in the text.
type DecoySpec struct {
	Answer string `json:"answer"`
	Span   [2]int `json:"span"`
}

// DonorSpec is the same prompt with another code: as many tokens, so that head outputs of one fit the rows of the other.
type DonorSpec struct {
	Answer string `json:"answer"`
	Text   string `json:"text"`
}

// PromptFile is a list of prompts and the hash that stands for it in a plan.
type PromptFile struct {
	Source string // BuiltinPrompts or the file's base name
	SHA256 string // of the file's bytes
	Specs  []PromptSpec
	Data   []byte // the file's bytes
	Total  int    // prompts of the file, also where Limit has left some out

	Generated *NeedleOptions // how they were made; nil for prompts of a file

	made *needle.Report // what became of that
}

// PromptError says which line of which prompt file is wrong.
type PromptError struct {
	File string
	Line int
	ID   string // empty where the line could not be read that far
	Err  error
}

func (e *PromptError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("%s: line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: line %d: prompt %s: %v", e.File, e.Line, e.ID, e.Err)
}

func (e *PromptError) Unwrap() error { return e.Err }

// Hint says what a prompt file looks like.
func (e *PromptError) Hint() string {
	return `one JSON object a line: {"id", "text", "needle": [s,e], "question": [s,e], "answer", "answer_span": [s,e]}; spans are byte offsets into text`
}

// ReadPrompts reads a prompt file, or the embedded set under its name.
func ReadPrompts(path string) (*PromptFile, error) {
	sets := builtinSets()
	if data, ok := sets[path]; ok {
		return parsePrompts(path, data)
	}
	if strings.HasPrefix(path, "builtin:") {
		return nil, usagef("give "+strings.Join(slices.Sorted(maps.Keys(sets)), ", ")+" or a file", "prompts %q: unknown set", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	return parsePrompts(filepath.Base(path), data)
}

// Limit keeps the first n prompts with a needle, and as many of each variant; n <= 0 keeps all.
func (f *PromptFile) Limit(n int) *PromptFile {
	if n <= 0 {
		return f
	}
	c := *f
	c.Specs = nil
	seen := map[string]int{}
	for _, s := range f.Specs {
		if seen[s.Variant] < n {
			c.Specs = append(c.Specs, s)
		}
		seen[s.Variant]++
	}
	return &c
}

// Only keeps the prompts of the given ids, in the order of the file.
func (f *PromptFile) Only(ids []string) *PromptFile {
	c := *f
	c.Specs = nil
	for _, s := range f.Specs {
		if slices.Contains(ids, s.ID) {
			c.Specs = append(c.Specs, s)
		}
	}
	return &c
}

func parsePrompts(name string, data []byte) (*PromptFile, error) {
	sum := sha256.Sum256(data)
	f := &PromptFile{Source: name, SHA256: hex.EncodeToString(sum[:]), Data: data}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 256<<20)
	seen := map[string]int{}
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		spec, err := parsePrompt(line)
		if err == nil && seen[spec.ID] > 0 {
			err = fmt.Errorf("the same id as on line %d", seen[spec.ID])
		}
		if err != nil {
			return nil, &PromptError{File: name, Line: n, ID: spec.ID, Err: err}
		}
		seen[spec.ID] = n
		f.Specs = append(f.Specs, spec)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Specs) == 0 {
		return nil, &PromptError{File: name, Line: 1, Err: errors.New("no prompts")}
	}
	for i := range f.Specs {
		if f.Specs[i].Variant == "" {
			f.Total++
		}
	}
	if f.Total == 0 && len(f.Specs) > 0 {
		return nil, fmt.Errorf("%s: every prompt is a variant without its needle", name)
	}
	return f, nil
}

// parsePrompt reads one line. Two layouts are known: ours, and the one whose spans are called needle_bytes and code_bytes and whose
// needle is the needle's text.
func parsePrompt(line []byte) (PromptSpec, error) {
	p := PromptSpec{Depth: -1}
	if !utf8.Valid(line) {
		return p, errors.New("not UTF-8")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return p, fmt.Errorf("not a JSON object: %w", err)
	}
	if v, ok := raw["variant"]; ok {
		if err := json.Unmarshal(v, &p.Variant); err != nil {
			return p, fmt.Errorf(`key "variant": %w`, err)
		}
		if p.Variant == "base" {
			p.Variant = ""
		}
	}
	needle, answer, span := "needle", "answer", "answer_span"
	if _, ok := raw["needle_bytes"]; ok {
		needle, answer, span = "needle_bytes", "code", "code_bytes"
	}
	var err error
	if p.ID, err = promptID(raw["id"]); err != nil {
		return p, err
	}
	for _, f := range []struct {
		key      string
		to       any
		required bool
	}{
		{"text", &p.Text, true}, {needle, &p.Needle, p.Variant == ""}, {answer, &p.Answer, true}, {span, &p.AnswerSpan, false},
		{"question", &p.Question, false}, {"decoys", &p.Decoys, false}, {"donor", &p.Donor, false}, {"add_special", &p.AddSpecial, false},
		{"template", &p.Template, false}, {"kind", &p.Kind, false}, {"depth", &p.Depth, false},
	} {
		v, ok := raw[f.key]
		if !ok && f.required {
			return p, fmt.Errorf("key %q is missing", f.key)
		}
		if !ok {
			continue
		}
		if err := unmarshalSpanOr(v, f.to); err != nil {
			return p, fmt.Errorf("key %q: %w", f.key, err)
		}
	}
	if _, ok := raw[span]; !ok && p.Variant == "" {
		if err := p.findAnswer(); err != nil {
			return p, err
		}
	}
	return p, p.check()
}

func promptID(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", errors.New(`key "id" is missing`)
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && s != "" {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil && n != "" {
		return n.String(), nil
	}
	return "", fmt.Errorf(`key "id": got %s, want a string or a number`, raw)
}

// unmarshalSpanOr is json.Unmarshal, except that a span has to have exactly two elements.
func unmarshalSpanOr(raw json.RawMessage, to any) error {
	var span *[2]int
	switch t := to.(type) {
	case *[2]int:
		span = t
	case **[2]int:
		if string(raw) == "null" {
			return nil
		}
		*t = new([2]int)
		span = *t
	default:
		return json.Unmarshal(raw, to)
	}
	return unmarshalSpan(raw, span)
}

func unmarshalSpan(raw json.RawMessage, span *[2]int) error {
	var list []int
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 2 {
		return fmt.Errorf("got %s, want a span [start, end] of byte offsets", raw)
	}
	*span = [2]int{list[0], list[1]}
	return nil
}

// UnmarshalJSON reads a decoy; its span has to have exactly two elements.
func (d *DecoySpec) UnmarshalJSON(b []byte) error {
	var raw struct {
		Answer string
		Span   json.RawMessage
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	d.Answer = raw.Answer
	if raw.Span == nil {
		return nil // a variant that leaves the decoy out
	}
	return unmarshalSpan(raw.Span, &d.Span)
}

// findAnswer places the answer where it stands in the needle, once.
func (p *PromptSpec) findAnswer() error {
	if err := p.checkSpan("needle", p.Needle); err != nil {
		return err
	}
	needle := p.Text[p.Needle[0]:p.Needle[1]]
	if n := strings.Count(needle, p.Answer); n != 1 || p.Answer == "" {
		return fmt.Errorf(`the answer %q stands %d times in the needle %q; give "answer_span"`, p.Answer, n, needle)
	}
	at := p.Needle[0] + strings.Index(needle, p.Answer)
	p.AnswerSpan = [2]int{at, at + len(p.Answer)}
	return nil
}

func (p *PromptSpec) check() error {
	if p.Answer == "" {
		return errors.New(`key "answer" is empty`)
	}
	switch p.Variant {
	case "":
		if err := p.checkSpan("needle", p.Needle); err != nil {
			return err
		}
		if err := p.checkSpan("answer_span", p.AnswerSpan); err != nil {
			return err
		}
		if in := p.Text[p.AnswerSpan[0]:p.AnswerSpan[1]]; in != p.Answer {
			return fmt.Errorf("answer_span %v holds %q, the answer is %q", p.AnswerSpan, in, p.Answer)
		}
	case VariantAbsent, VariantDecoyOnly:
		if strings.Contains(p.Text, p.Answer) {
			return fmt.Errorf("a prompt of variant %q holds its answer %q", p.Variant, p.Answer)
		}
	case VariantNoDecoy:
	default:
		return fmt.Errorf("variant %q: want base, %s, %s or %s", p.Variant, VariantAbsent, VariantDecoyOnly, VariantNoDecoy)
	}
	if p.Depth > 1 || p.Depth < 0 && p.Depth != -1 {
		return fmt.Errorf("depth %g is not in [0, 1]", p.Depth)
	}
	if p.Question != nil {
		if err := p.checkSpan("question", *p.Question); err != nil {
			return err
		}
	}
	if d := p.Donor; d != nil && (d.Text == "" || d.Text == p.Text) {
		return errors.New(`key "donor": want {"answer", "text"} with another text than the prompt's`)
	}
	for i, d := range p.Decoys {
		if d.Answer == "" {
			return fmt.Errorf("decoy %d has no answer", i)
		}
		if d.Answer == p.Answer {
			return fmt.Errorf("decoy %d is the answer, %q", i, p.Answer)
		}
		if p.leavesDecoyOut() && d.Span == [2]int{} {
			continue
		}
		if err := p.checkSpan(fmt.Sprintf("span of decoy %d", i), d.Span); err != nil {
			return err
		}
	}
	return nil
}

func (p *PromptSpec) leavesDecoyOut() bool {
	return p.Variant == VariantAbsent || p.Variant == VariantNoDecoy
}

func (p *PromptSpec) checkSpan(what string, s [2]int) error {
	if s[0] < 0 || s[1] <= s[0] || s[1] > len(p.Text) {
		return fmt.Errorf("%s [%d, %d) is not inside the text of %d bytes", what, s[0], s[1], len(p.Text))
	}
	for _, at := range s {
		if at < len(p.Text) && !utf8.RuneStart(p.Text[at]) {
			return fmt.Errorf("%s [%d, %d) cuts a character: offsets are bytes of UTF-8", what, s[0], s[1])
		}
	}
	return nil
}
