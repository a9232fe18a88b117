package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// ReadDocument reads what a verb without work units wrote: a JSON object with a key "kind". kind is "" for a result of an experiment,
// which [Recheck] takes. A file that is no such object, or that a newer headscope wrote, is an error with a hint.
func ReadDocument(path string) (kind string, data []byte, err error) {
	if data, err = os.ReadFile(path); err != nil {
		return "", nil, err
	}
	var head struct {
		Schema *int   `json:"schema"`
		Kind   string `json:"kind"`
	}
	if err := decodeWhole(data, &head); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	if head.Kind != "" && head.Schema != nil && *head.Schema > schemaVersion {
		return "", nil, &hintError{fmt.Errorf("%s: schema %d, want at most %d", path, *head.Schema, schemaVersion), "a newer headscope wrote it: read it with that one"}
	}
	return head.Kind, data, nil
}

// Damaged says that a document does not hold what its kind has to.
func Damaged(path string, err error) error {
	return &hintError{fmt.Errorf("%s: damaged: %w", path, err), "write it again with the command that it names"}
}

// Compare adds a section that holds two values against each other by their JSON forms, file beside what was computed again.
func (c *Check) Compare(name string, file, again any) error {
	var both [2]any
	for i, x := range []any{file, again} {
		data, err := json.Marshal(x)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.Path, name, err)
		}
		if both[i], err = anyJSON(data); err != nil {
			return fmt.Errorf("%s: %s: %w", c.Path, name, err)
		}
	}
	s := CheckSection{Name: name}
	s.diff(name, both[0], both[1], true)
	c.Sections = append(c.Sections, s)
	c.OK = !c.failed()
	return nil
}

// RecheckPerplexity computes a stored perplexity again from what it holds of each document: key, means, intervals, taxes, KL.
func RecheckPerplexity(path string, data []byte) (*Check, error) {
	r := new(Perplexity)
	if err := decodeWhole(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Conditions) == 0 {
		return nil, Damaged(path, errors.New("no conditions"))
	}
	again := *r
	again.Conditions = nil
	var asked []NamedEdits
	st := PlanStats{Seed: r.Run.Seed, Bootstrap: r.Run.Stream, Resamples: r.Run.Resamples, Level: r.Run.Level}
	base := r.Conditions[0].Documents
	for i, x := range r.Conditions {
		if len(x.Documents) != len(r.Texts.Texts) {
			return nil, Damaged(path, fmt.Errorf("condition %s: %d documents, want %d", x.Name, len(x.Documents), len(r.Texts.Texts)))
		}
		for k, d := range x.Documents {
			if want := r.Texts.Texts[k].Scored; d.Tokens != want {
				return nil, Damaged(path, fmt.Errorf("condition %s: document %s: %d tokens, want %d", x.Name, r.Texts.Texts[k].ID, d.Tokens, want))
			}
		}
		if i == 0 {
			again.Conditions = append(again.Conditions, st.textResult(NamedEdits{Name: x.Name}, r.Run.DType, x.Documents, nil))
			continue
		}
		asked = append(asked, NamedEdits{x.Name, x.Edits})
		again.Conditions = append(again.Conditions, st.textResult(NamedEdits{x.Name, x.Edits}, r.Run.DType, x.Documents, base))
	}
	var err error
	if again.Key, err = r.key(asked); err != nil {
		return nil, err
	}
	c := &Check{Path: path, Trials: "its documents"}
	c.Left = []Unchecked{{"conditions[].documents", "sums over a document's tokens: only the model gives them"}}
	if err := c.Compare("key", r.Key, again.Key); err != nil {
		return nil, err
	}
	return c, c.Compare("conditions", withoutDocuments(r.Conditions), withoutDocuments(again.Conditions))
}

// withoutDocuments leaves out what is not computed again.
func withoutDocuments(conds []TextResult) []TextResult {
	out := append([]TextResult(nil), conds...)
	for i := range out {
		out[i].Documents = nil
	}
	return out
}
