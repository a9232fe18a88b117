package main

import (
	"slices"
	"strings"
)

const module = "github.com/headscope/headscope"

const (
	maxFileLines = 500
	maxFuncLines = 80
	maxParams    = 5
)

// rank places each room on the map of docs/architecture.md: a package imports only packages of lower rank. The key is the
// path below the module; a key that ends in /... also covers the packages below it.
var rank = map[string]int{
	"loader/builtin":     0,
	"loader/hub":         0,
	"loader/rope":        0,
	"loader/safetensors": 0,
	"loader/tokenizer":   0,
	"stats":              0,
	"loader/gguf":        1,
	"loader":             2,
	"loader/loadertest":  3,
	"loader/decoder":     3,
	"loader/decoder/...": 3,
	"heads":              4,
	"patch":              5,
	"harness/needle":     6,
	"harness/pretrain":   6,
	"harness":            7,
	"harness/...":        6,
	"harness/report":     8,
	"harness/replicate":  8,
	"harness/headlists":  8,
	"harness/planes":     8,
	"harness/tracing":    8,
	"cmd/...":            9,
	"scripts/...":        10,
}

// leaf rooms import no package of ours, not even one of lower rank.
const leafRank = 0

// dependency says which rooms may import a third-party package and those below it.
type dependency struct {
	path  string
	rooms []string // rooms and everything below them
	tests bool     // only _test.go files
	ban   string   // nobody; the reason
}

// The longest matching path decides.
var dependencies = []dependency{
	{path: "github.com/gomlx/gomlx", rooms: []string{"loader/decoder", "harness/pretrain", "scripts/bench/baseline"}},
	{path: "github.com/gomlx/gomlx/backends/default", ban: "it downloads a plugin by itself"},
	{path: "github.com/gomlx/compute", rooms: []string{"loader/decoder", "harness/pretrain", "scripts/bench/baseline"}},
	{path: "github.com/gomlx/go-xla", rooms: []string{"loader/decoder"}},
	{path: "github.com/gomlx/go-xla/compute/xla/autoinstall", ban: "it downloads a plugin by itself"},
	{path: "github.com/gomlx/go-huggingface", rooms: []string{"loader/hub"}},
	{path: "github.com/nlpodyssey/gotokenizers", rooms: []string{"loader/tokenizer"}},
	{path: "github.com/ardanlabs/jinja", rooms: []string{"loader/tokenizer"}},
	{path: "github.com/dlclark/regexp2", rooms: []string{"loader/tokenizer"}},
	{path: "golang.org/x/text", rooms: []string{"loader/tokenizer"}},
	{path: "github.com/edsrzf/mmap-go", rooms: []string{"loader/safetensors", "loader/gguf"}},
	{path: "gonum.org/v1/gonum", rooms: []string{"stats", "harness/report"}},
	{path: "gonum.org/v1/plot", rooms: []string{"harness/report"}},
	{path: "github.com/spf13/pflag", rooms: []string{"cmd"}},
	{path: "github.com/schollz/progressbar/v3", rooms: []string{"cmd"}},
	{path: "golang.org/x/term", rooms: []string{"cmd"}},
	{path: "golang.org/x/sys", rooms: []string{"cmd", "harness", "loader/safetensors", "loader/gguf"}},
	{path: "k8s.io/klog/v2", rooms: []string{"cmd"}},
	{path: "github.com/google/go-cmp", tests: true},
	{path: "github.com/rogpeppe/go-internal", tests: true},
	{path: "github.com/santhosh-tekuri/jsonschema/v6", tests: true},
}

// environment lists the rooms outside cmd that may read documented variables (HF's, PJRT's, XDG's).
var environment = []string{"loader", "loader/hub", "loader/decoder"}

func mayReadEnvironment(room string) bool {
	return below(room, "cmd") || below(room, "scripts") || slices.Contains(environment, room)
}

// initFunctions lists the rooms that may have an init function: backend registration.
var initFunctions = []string{"loader/decoder"}

// below reports whether path is base or lies under it.
func below(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/")
}

func belowAny(path string, bases []string) bool {
	for _, b := range bases {
		if below(path, b) {
			return true
		}
	}
	return false
}

// rankOf returns the rank of a room (a path below the module).
func rankOf(room string) (int, bool) {
	if r, ok := rank[room]; ok {
		return r, true
	}
	for base := room; base != ""; {
		if r, ok := rank[base+"/..."]; ok {
			return r, true
		}
		i := strings.LastIndexByte(base, '/')
		if i < 0 {
			break
		}
		base = base[:i]
	}
	return 0, false
}

// checkImport returns what is wrong with room importing path, or "".
func checkImport(room, path string, test bool) string {
	if below(path, module) {
		return checkRoom(room, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), test)
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "" // standard library
	}
	var best *dependency
	for i := range dependencies {
		d := &dependencies[i]
		if below(path, d.path) && (best == nil || len(d.path) > len(best.path)) {
			best = d
		}
	}
	switch {
	case best == nil:
		return "imports " + path + ": not a listed dependency (scripts/lint/rules.go)"
	case best.ban != "":
		return "imports " + path + ": " + best.ban
	case best.tests && !test:
		return "imports " + path + ": for tests only"
	case !best.tests && !belowAny(room, best.rooms):
		return "imports " + path + ": only for " + strings.Join(best.rooms, ", ")
	}
	return ""
}

// checkRoom holds the arrows of the map. Tests may look sideways and use loadertest, as long as Go allows it.
func checkRoom(room, other string, test bool) string {
	from, ok := rankOf(room)
	if !ok {
		return "is not on the map (scripts/lint/rules.go)"
	}
	to, ok := rankOf(other)
	if !ok {
		return "imports " + other + ", which is not on the map (scripts/lint/rules.go)"
	}
	inside := below(room, other) || below(other, room)
	switch {
	case test:
		return ""
	case other == "loader/loadertest" && !below(room, "cmd"):
		return "imports loader/loadertest: for tests only"
	case from == leafRank:
		return "imports " + other + ": this room imports none of ours"
	case to >= from && !(inside && to == from):
		return "imports " + other + ": imports point down only"
	}
	return ""
}
