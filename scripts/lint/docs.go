package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

var (
	linkPattern   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	targetPattern = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?:[^=]|$)`)
)

// checkDocs checks README.md, CHANGELOG.md and docs/*.md: relative links lead to files, and every line of a fenced sh block
// starts with a make target of the Makefile, with bin/headscope, or with a file of scripts/.
func checkDocs(root string) ([]string, error) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, err
	}
	targets := map[string]bool{}
	for _, m := range targetPattern.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	names = append(names, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md"))
	sort.Strings(names)
	var out []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, msg := range deadLinks(filepath.Dir(name), line) {
				out = append(out, fmt.Sprintf("%s:%d: %s", rel, i+1, msg))
			}
		}
		for _, c := range shellCommands(string(text)) {
			if msg := checkCommand(root, c.text, targets); msg != "" {
				out = append(out, fmt.Sprintf("%s:%d: %s", rel, c.line, msg))
			}
		}
	}
	return out, nil
}

func deadLinks(dir, line string) []string {
	var out []string
	for _, m := range linkPattern.FindAllStringSubmatch(line, -1) {
		u, err := url.Parse(m[1])
		if err != nil || u.Scheme != "" || u.Path == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, u.Path)); err != nil {
			out = append(out, "dead link "+m[1])
		}
	}
	return out
}

// command is one line of a fenced sh block.
type command struct {
	line int // from 1
	text string
}

func shellCommands(markdown string) []command {
	var out []command
	inside := false
	for i, line := range strings.Split(markdown, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case !inside && line == "```sh":
			inside = true
		case inside && line == "```":
			inside = false
		case inside && line != "" && !strings.HasPrefix(line, "#"):
			out = append(out, command{i + 1, line})
		}
	}
	return out
}

func checkCommand(root, text string, targets map[string]bool) string {
	words := strings.Fields(text)
	switch {
	case words[0] == "bin/headscope":
		return ""
	case words[0] == "make":
		if len(words) > 1 && !strings.HasPrefix(words[1], "#") && !targets[words[1]] {
			return "no make target " + words[1]
		}
		return ""
	case strings.HasPrefix(words[0], "scripts/"):
		if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
			return "no file " + words[0]
		}
		return ""
	}
	return "sh block runs " + words[0] + ", want make, bin/headscope or scripts/"
}
