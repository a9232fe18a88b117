package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
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
		name := strings.TrimSuffix(path[strings.LastIndexByte(path, os.PathSeparator)+1:], ".json")
		return []harness.NamedEdits{{Name: name, Edits: list}}, nil
	}
	var object map[string][]decoder.Edit
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fail(err)
	}
	var out []harness.NamedEdits
	for name, list := range object {
		out = append(out, harness.NamedEdits{Name: name, Edits: list})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}
