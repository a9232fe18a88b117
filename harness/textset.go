package harness

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Texts that need no file.
const (
	BuiltinProse    = "builtin:prose"    // ten paragraphs of plain English
	BuiltinHaystack = "builtin:haystack" // the sentences that generated needle prompts are made of
)

//go:embed texts/prose.txt
var prose string

// Document is one text of a set.
type Document struct{ ID, Text string }

// TextSet is what perplexity is measured on.
type TextSet struct {
	Source    string // names of the sources, joined by commas
	SHA256    string // of the texts and their names
	Documents []Document
	Warning   string // what a reader of the numbers has to know of the texts; empty for nothing
}

// haystackWarning: the published perplexities of needle studies are of such text.
const haystackWarning = "The texts are the haystack of the needle prompts, short sentences without a thread: their perplexity says little about other text."

// NoTexts in the place of texts leaves them out of an experiment that scores some beside its prompts.
const NoTexts = "none"

// ReadTexts reads sources of text, each a file or a set that is built in. A file whose name ends in .jsonl has a document a line,
// {"text": ..., "id": ...} with an optional id and whatever other keys; any other file is one document.
func ReadTexts(sources []string) (*TextSet, error) {
	s := &TextSet{}
	var names []string
	for _, source := range sources {
		var docs []Document
		var err error
		switch {
		case source == BuiltinProse:
			docs = paragraphs(prose)
		case source == BuiltinHaystack:
			docs, err = haystackTexts()
			s.Warning = haystackWarning
		case source == NoTexts:
			err = usagef("give none alone, to verbs that score texts beside something else, or leave it out; a file of that name is ./none", "text %s, which leaves texts out", source)
		case strings.HasPrefix(source, "builtin:"):
			err = usagef("give "+BuiltinProse+", "+BuiltinHaystack+" or a file", "text %q: unknown set", source)
		default:
			docs, err = readDocuments(source)
		}
		if err != nil {
			return nil, err
		}
		s.Documents = append(s.Documents, docs...)
		names = append(names, filepath.Base(source))
	}
	seen := map[string]bool{}
	var sum strings.Builder
	for _, d := range s.Documents {
		if strings.TrimSpace(d.Text) == "" {
			return nil, &hintError{fmt.Errorf("text %s is empty", d.ID), "a text needs at least two tokens"}
		}
		if seen[d.ID] {
			return nil, usagef("give each text once, and each line of a .jsonl file its own id", "text %s is there twice", d.ID)
		}
		seen[d.ID] = true
		fmt.Fprintf(&sum, "%d %s %d %s\n", len(d.ID), d.ID, len(d.Text), d.Text)
	}
	s.Source, s.SHA256 = strings.Join(names, ","), sumOf(sum.String())
	return s, nil
}

func paragraphs(text string) []Document {
	var out []Document
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		out = append(out, Document{fmt.Sprintf("prose%d", len(out)), strings.TrimSpace(p)})
	}
	return out
}

// Of the built-in haystack.
const (
	haystackDocuments = 10
	haystackSentences = 12
)

func haystackTexts() ([]Document, error) {
	specs, err := needle.Specs(needle.Options{Split: needle.Test, N: haystackDocuments})
	if err != nil {
		return nil, err
	}
	var out []Document
	for i := range specs {
		var text []string
		for s := range specs[i].Sentences() {
			if text = append(text, s); len(text) == haystackSentences {
				break
			}
		}
		out = append(out, Document{fmt.Sprintf("haystack%d", i), strings.Join(text, " ")})
	}
	return out, nil
}

func readDocuments(path string) ([]Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	if !utf8.Valid(data) {
		return nil, &hintError{fmt.Errorf("text: %s: not UTF-8", path), "texts are UTF-8: convert the file first"}
	}
	name := filepath.Base(path)
	if filepath.Ext(path) != ".jsonl" {
		return []Document{{name, string(data)}}, nil
	}
	var out []Document
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d struct {
			ID   *string `json:"id"`
			Text *string `json:"text"`
		}
		err := json.Unmarshal(line, &d)
		if err == nil && d.Text == nil {
			err = fmt.Errorf(`key "text" is missing`)
		}
		if err != nil {
			return nil, &hintError{fmt.Errorf("text: %s:%d: %w", path, i+1, err), `want an object a line, {"text": "...", "id": "..."} with an optional id`}
		}
		doc := Document{fmt.Sprintf("%s:%d", name, i+1), *d.Text}
		if d.ID != nil {
			doc.ID = name + ":" + *d.ID
		}
		out = append(out, doc)
	}
	if len(out) == 0 {
		return nil, &hintError{fmt.Errorf("text: %s: no documents", path), `want an object a line, {"text": "..."}`}
	}
	return out, nil
}

// textWindows is a document cut into what the model sees at once.
type textWindows struct {
	id      string
	tokens  int // of the text, without what the tokenizer adds
	windows []decoder.TextWindow
}

// scored is how many tokens of the document are scored.
func (t *textWindows) scored() int {
	n := 0
	for _, w := range t.windows {
		n += len(w.IDs) - w.From
	}
	return n
}

// Windows says how long texts are cut. Every token is scored once, with at least Tokens-Stride tokens before it where the document has
// them.
type Windows struct {
	Tokens int `json:"tokens"` // longest window, what the tokenizer adds in front included; 0 = 1024, or the model's longest if that is less
	Stride int `json:"stride"` // tokens from the start of a window to that of the next; 0 = half of Tokens
}

const usualWindow = 1024

// fill fixes what was left open, and refuses what cannot be.
func (w *Windows) fill(spec *loader.Spec) error {
	longest := spec.Longest()
	if w.Tokens == 0 {
		w.Tokens = min(usualWindow, longest)
	}
	if w.Stride == 0 {
		w.Stride = w.Tokens / 2
	}
	switch {
	case w.Tokens < 4:
		return usagef("1024 is usual", "window %d: want at least 4 tokens", w.Tokens)
	case w.Tokens > longest:
		return usagef(fmt.Sprintf("the model takes sequences of up to %d tokens", longest), "window %d is too long", w.Tokens)
	case w.Stride < 1 || w.Stride > w.Tokens-2:
		return usagef("windows overlap, so that every token has some before it: half of the window is usual", "stride %d: want 1 to %d, the window less 2", w.Stride, w.Tokens-2)
	}
	return nil
}

// cut tokenises the documents. What the tokenizer adds in front by default, such as BOS, stands in front of every window and is not
// scored; without it the first token of a document has nothing before it and is not scored either.
func (w Windows) cut(tok *tokenizer.Tokenizer, docs []Document) ([]textWindows, error) {
	if tok == nil {
		return nil, errNoTokenizer()
	}
	var out []textWindows
	for _, d := range docs {
		enc, err := tok.Encode(d.Text, tokenizer.Options{AddSpecial: true})
		if err != nil {
			return nil, fmt.Errorf("text %s: %w", d.ID, err)
		}
		ids := enc.IDs
		added := 0
		for added < len(ids) && enc.Special[added] {
			added++
		}
		end := len(ids)
		for end > added && enc.Special[end-1] {
			end--
		}
		t := textWindows{id: d.ID, tokens: end - added}
		if t.windows, err = w.windows(ids[:added], ids[added:end]); err != nil {
			return nil, fmt.Errorf("text %s: %w", d.ID, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (w Windows) windows(front, ids []int32) ([]decoder.TextWindow, error) {
	room := w.Tokens - len(front)
	if room <= w.Stride {
		return nil, usagef("give a longer --window", "a window of %d tokens has room for %d of the text, not for the stride's %d and one before", w.Tokens, room, w.Stride)
	}
	done := 0 // tokens of the text that are scored, or have nothing before them
	if len(front) == 0 {
		done = 1
	}
	if len(ids) <= done {
		return nil, &hintError{fmt.Errorf("%d tokens: nothing to score", len(ids)), "a text needs at least two tokens"}
	}
	var out []decoder.TextWindow
	for start := 0; done < len(ids); start += w.Stride {
		end := min(start+room, len(ids))
		window := append(append([]int32(nil), front...), ids[start:end]...)
		out = append(out, decoder.TextWindow{IDs: window, From: len(front) + done - start})
		done = end
	}
	return out, nil
}
