package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// editFlags are interventions on the command line.
type editFlags struct {
	edits []string
	files []string
}

func (e *editFlags) add(fs *pflag.FlagSet, what string) {
	fs.StringArrayVar(&e.edits, "edit", nil, "op[=value]:heads[:planes][@scope], such as zero:L18H6,L20H3@question; heads may be a file (repeatable); "+what)
	fs.StringArrayVar(&e.files, "edits", nil, "JSON file: a list of edits, or an object of named lists (repeatable)")
}

func readHeads(path string) ([]decoder.Head, error) { return heads.ReadRanking(path) }

func parseEdit(s string) (decoder.Edit, error) {
	e, err := decoder.ParseEdit(s, readHeads)
	if err != nil {
		return e, &usageError{err, "the form is op[=value]:heads[:planes][@scope], for example zero:L18H6,L20H3@question"}
	}
	return e, nil
}

// conditions returns each --edit as a condition of its own, and each file as one or, where it names several, as those.
func (e *editFlags) conditions() ([]harness.NamedEdits, error) {
	var out []harness.NamedEdits
	for _, s := range e.edits {
		edit, err := parseEdit(s)
		if err != nil {
			return nil, err
		}
		out = append(out, harness.NamedEdits{Name: edit.String(), Edits: []decoder.Edit{edit}})
	}
	for _, path := range e.files {
		named, err := readEdits(path)
		if err != nil {
			return nil, err
		}
		out = append(out, named...)
	}
	return out, nil
}

// noteSkipped says which heads edits leave out, as their layers do not rotate.
func (a *app) noteSkipped(m *opened, edits []decoder.Edit) {
	if note := harness.SkippedNote(&m.checkpoint.Spec, edits); note != "" {
		a.note("%s", note)
	}
}

// together returns all edits as one list.
func (e *editFlags) together() ([]decoder.Edit, error) {
	named, err := e.conditions()
	if err != nil {
		return nil, err
	}
	var out []decoder.Edit
	for _, n := range named {
		out = append(out, n.Edits...)
	}
	return out, nil
}

func readEdits(path string) ([]harness.NamedEdits, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("edits: %w", err)
	}
	fail := func(err error) error {
		return &usageError{fmt.Errorf("%s: %w", path, err), `want ["zero:L18H6@all", {"op": "zero", "heads": [[18, 6]], "scope": "all"}], or an object of such lists`}
	}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		var list []decoder.Edit
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fail(err)
		}
		if len(list) == 0 {
			return nil, fail(errors.New("no edits"))
		}
		return []harness.NamedEdits{{Name: strings.TrimSuffix(filepath.Base(path), ".json"), Edits: list}}, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fail(err)
	}
	if len(object) == 0 {
		return nil, fail(errors.New("no edits"))
	}
	out, err := namedLists(data)
	if err != nil {
		return nil, fail(err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// namedLists reads a JSON object of lists of edits, key by key: a map would keep the last of two lists of one name without a word.
func namedLists(data []byte) ([]harness.NamedEdits, error) {
	var out []harness.NamedEdits
	seen := map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil { // {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // a key is nothing else
		n := harness.NamedEdits{Name: name}
		switch err := dec.Decode(&n.Edits); {
		case err != nil:
			return nil, fmt.Errorf("key %q: %w", name, err)
		case seen[name]:
			return nil, fmt.Errorf("key %q is there twice", name)
		case name == "" || len(n.Edits) == 0:
			return nil, fmt.Errorf("key %q: want a name and at least one edit", name)
		}
		seen[name] = true
		out = append(out, n)
	}
	return out, nil
}
