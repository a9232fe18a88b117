package main

import (
	"context"
	"fmt"
	"strings"
)

// verbs is the table that the command, its help and its suggestions are made from, in the order in which help lists them.
func verbs() []*verb {
	return []*verb{
		studyVerb(), detectVerb(), knockoutVerb(), bandsVerb(), swapVerb(), keepVerb(), promptsVerb(), logitsVerb(), generateVerb(), tokenizeVerb(),
		dumpVerb(), showVerb(), headVerb(), frequenciesVerb(), ledgerVerb(), traceVerb(), serveVerb(), reportVerb(),
		perplexityVerb(), normsVerb(), compareVerb(), replicateVerb(), inspectVerb(), editVerb(), verifyVerb(), mergeVerb(), exportVerb(), statsVerb(), schemaVerb(), importVerb(), doctorVerb(), versionVerb(),
	}
}

func find(name string) (*verb, error) {
	var names []string
	for _, v := range verbs() {
		if v.name == name {
			return v, nil
		}
		names = append(names, v.name)
	}
	hint := "`headscope help` lists the verbs"
	if best := nearest(name, names, 3); best != "" {
		hint = fmt.Sprintf("did you mean `headscope %s`? %s", best, hint)
	}
	return nil, &usageError{fmt.Errorf("unknown verb %q", name), hint}
}

// nearest returns the name that was probably meant: one that is fewer than distance edits away or begins with what was given. "" is none.
func nearest(given string, names []string, distance int) string {
	best := ""
	for _, name := range names {
		if d := editDistance(given, name); d < distance || strings.HasPrefix(name, given) && len(given) > 1 {
			best, distance = name, min(d, distance)
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func (a *app) help(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return a.done(ctx, a.helpAll())
	}
	v, err := find(args[0])
	if err != nil {
		return a.fail(ctx, err)
	}
	return a.done(ctx, a.helpVerb(v))
}

func (a *app) helpAll() error {
	var b strings.Builder
	b.WriteString("headscope finds the retrieval heads of a language model and switches them off.\n\nusage: headscope VERB MODEL [flags]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-10s %s\n", v.name, v.summary)
	}
	b.WriteString("\nMODEL is a Hugging Face folder, or org/name[@rev] in the local Hugging Face cache.\n`headscope help VERB` lists a verb's flags.\n")
	_, err := a.out.Write([]byte(b.String()))
	return err
}

func (a *app) helpVerb(v *verb) error {
	fs := newFlags(v)
	v.flags(fs)
	commonFlags(fs)
	details := ""
	if v.details != "" {
		details = "\n" + v.details + "\n"
	}
	_, err := fmt.Fprintf(a.out, "usage: headscope %s %s [flags]\n\n%s.\n%s\n%s", v.name, v.operands, v.summary, details, fs.FlagUsagesWrapped(110))
	return err
}
