package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ResultSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("result.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("result.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t *testing.T, data []byte) map[string]any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// resultsOfEveryKind are stored results that between them hold every part that a result can have.
func resultsOfEveryKind(t *testing.T) map[string][]byte {
	full := tinyOptions(t, 4)
	full.Example, full.Top, full.Threshold, full.Cuts, full.Equivalence = true, 0, 0.01, true, 0.5
	full.Pools, full.Controls, full.DetectPrompts, full.Command = []string{PoolLayer, PoolLayerKV}, AutoControls, shifted(t, 3), []string{"study"}
	full.Scopes, full.MaxNew = full.Scopes[:1], 2
	full.Modes = []string{ModeZero, ModeMean}
	for i := range full.Prompts.Specs {
		full.Prompts.Specs[i].Template, full.Prompts.Specs[i].Depth = "plain", 0.5
	}
	absent := PromptSpec{ID: "a", Text: "The sea is far. What is the code? The code is", Answer: "K0Q", Depth: -1, Variant: VariantAbsent}
	full.Prompts.Specs = append(full.Prompts.Specs, absent)
	full.Prompts.Generated = &NeedleOptions{N: 4, Tokens: 30, CodeTokens: 4, Templates: []string{"plain"}, Depths: []float64{0.5}, Chat: "plain"}
	full.Conditions = []NamedEdits{{"half", []decoder.Edit{{Op: decoder.OpScale, Value: 0.5, Heads: []decoder.Head{{Layer: 2, Index: 0}}, Scope: decoder.ScopeAll}}}}
	full.Refused = []PromptFailure{{"p", "does not fit"}}
	failed := tinyOptions(t, 4)
	s := inUnits(t, failed)
	ask, calls := s.ask, 0
	s.ask = func(ctx context.Context, p []*decoder.Prompt, c []decoder.Condition, o decoder.AskOptions, emit decoder.Emit) error {
		if calls++; calls > 2 { // the knockout stage
			return &decoder.OutOfMemoryError{Err: errors.New("no room")}
		}
		return ask(ctx, p, c, o, emit)
	}
	out := map[string][]byte{}
	further := tinyOptions(t, 2)
	further.Stages, further.Detectors = []string{StageDetect}, []string{"qr_cal", "logit_attr"}
	further.DetectPrompts, further.AgreementPrompts = nil, shifted(t, 2)
	further.AgreementPrompts.Specs[0].Kind = "decoy"
	_, r := runStudy(t, further)
	out["detectors"] = readFile(t, r.Path)
	if res, err := s.Run(context.Background()); err != nil || !res.Failed() {
		t.Fatalf("got %v, want failed trials", err)
	} else {
		out["failed"] = readFile(t, res.Path)
	}
	for name, o := range ofOneStage(t) {
		_, r := runStudy(t, o)
		out[name] = readFile(t, r.Path)
	}
	_, r = runStudy(t, tinyKeep(t, 1))
	out["keep"] = readFile(t, r.Path)
	bands := bandOptions(t)
	bands.Bands.K, bands.Bands.Planes, bands.Pools = []int{2}, 1, bands.Pools[:1] // to save time
	_, r = runStudy(t, bands)
	out["bands"] = readFile(t, r.Path)
	_, r = runStudy(t, tinySwap(t, 1, "theta100"))
	out["swap"] = readFile(t, r.Path)
	_, r = runStudy(t, full)
	out["study"] = readFile(t, r.Path)
	return out
}

// TestSchema: what runs write is valid, for a validator that is not ours.
func TestSchema(t *testing.T) {
	s := compiledSchema(t)
	properties := document(t, ResultSchema())["$defs"].(map[string]any)["result"].(map[string]any)["properties"].(map[string]any)
	for name, data := range resultsOfEveryKind(t) {
		m := document(t, data)
		if err := s.Validate(any(m)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for k := range m {
			delete(properties, k)
		}
	}
	if len(properties) > 0 {
		t.Errorf("no result has %v", properties)
	}
}

// TestSchemaRefuses: a result that is broken anywhere is not valid.
func TestSchemaRefuses(t *testing.T) {
	s := compiledSchema(t)
	_, r := runStudy(t, tinyOptions(t, 3))
	data := readFile(t, r.Path)
	at := func(v any, path ...any) any {
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(map[string]any)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		return v
	}
	set := func(key string, value any, path ...any) func(map[string]any) {
		return func(m map[string]any) { at(m, path...).(map[string]any)[key] = value }
	}
	for name, breakIt := range map[string]func(map[string]any){
		"unknown key":        set("extra", 1),
		"unknown inner key":  set("extra", 1, "conditions", 0, "metrics", "recall"),
		"schema 2":           set("schema", 2),
		"key":                set("key", "xyz"),
		"hash":               set("weights_sha256", "00", "model"),
		"text for a number":  set("value", "0.5", "metrics", "recall"),
		"null, no reason":    set("value", nil, "metrics", "recall"),
		"negative count":     set("hit", -1, "n"),
		"half a trial":       set("hit", 0.5, "n"),
		"p above 1":          set("p", 1.5, "conditions", 1, "metrics", "mcnemar"),
		"p null, no reason":  func(m map[string]any) { e := at(m, "effects", 0).(map[string]any); e["p"] = nil; delete(e, "reason") },
		"scope":              set("scope", "everywhere", "conditions", 1),
		"no conditions":      func(m map[string]any) { delete(m, "conditions") },
		"head of one number": set("heads", []any{[]any{1}}),
		"head twice":         set("heads", []any{[]any{1, 1}, []any{1, 1}}),
		"device":             set("device", "tpu", "plan", "run"),
		"label":              set("label", "magic", "detection", "hits", 0),
	} {
		m := document(t, data)
		if name == "label" && len(at(m, "detection", "hits").([]any)) == 0 {
			t.Fatal("no hits to break")
		}
		breakIt(m)
		if err := s.Validate(any(m)); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

// TestSchemaComplete: schema and Go types name the same keys, and call the same ones required.
func TestSchemaComplete(t *testing.T) {
	doc := document(t, ResultSchema())
	w := &schemaWalk{t: t, defs: doc["$defs"].(map[string]any), used: map[string]bool{}}
	w.walk("result", reflect.TypeFor[Result](), doc)
	for name := range w.defs {
		if !w.used[name] {
			t.Errorf("$defs/%s is not used", name)
		}
	}
	if w.fields < 150 {
		t.Errorf("only %d fields were compared", w.fields)
	}
}

type schemaWalk struct {
	t      *testing.T
	defs   map[string]any
	used   map[string]bool
	fields int
}

func (w *schemaWalk) resolve(s map[string]any) map[string]any {
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		name := strings.TrimPrefix(ref, "#/$defs/")
		w.used[name] = true
		s = w.defs[name].(map[string]any)
	}
}

// leaves are written by themselves.
var leaves = []reflect.Type{
	reflect.TypeFor[decoder.Head](), reflect.TypeFor[Number](), reflect.TypeFor[floats](), reflect.TypeFor[big.Int](), reflect.TypeFor[heads.Scores](),
	reflect.TypeFor[heads.Set](), reflect.TypeFor[heads.Ranking](), reflect.TypeFor[json.Number](),
}

func (w *schemaWalk) walk(path string, typ reflect.Type, schema map[string]any) {
	schema = w.resolve(schema)
	if items, ok := schema["items"].(map[string]any); ok {
		w.resolve(items)
	}
	for _, k := range []string{"propertyNames", "additionalProperties"} {
		if sub, ok := schema[k].(map[string]any); ok {
			w.resolve(sub)
		}
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if slices.Contains(leaves, typ) {
		if p, ok := schema["properties"].(map[string]any); ok {
			for _, sub := range p {
				w.walk(path, reflect.TypeFor[int](), sub.(map[string]any))
			}
		}
		return
	}
	switch typ.Kind() {
	case reflect.Struct:
		w.object(path, typ, schema)
	case reflect.Slice, reflect.Array:
		items, ok := schema["items"].(map[string]any)
		if !ok {
			w.t.Errorf("%s: a list in Go, not in the schema", path)
			return
		}
		w.walk(path+"[]", typ.Elem(), items)
	case reflect.Map:
		if schema["type"] != "object" {
			w.t.Errorf("%s: a map in Go, not in the schema", path)
		}
	}
}

func (w *schemaWalk) object(path string, typ reflect.Type, schema map[string]any) {
	properties, ok := schema["properties"].(map[string]any)
	if !ok || schema["additionalProperties"] != false {
		w.t.Errorf("%s: %s: the schema is not of a closed object", path, typ)
		return
	}
	var required []string
	for _, r := range schema["required"].([]any) {
		required = append(required, fmt.Sprint(r))
	}
	have := map[string]bool{}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue // its fields are there themselves
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			w.t.Errorf("%s: field %s has no name in JSON", path, f.Name)
		}
		have[name] = true
		w.fields++
		sub, ok := properties[name].(map[string]any)
		if !ok {
			w.t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		if optional := strings.Contains(options, "omitempty"); optional == slices.Contains(required, name) {
			w.t.Errorf("%s.%s: omitted when empty %t, required %t", path, name, optional, !optional)
		}
		w.walk(path+"."+name, f.Type, sub)
	}
	for name := range properties {
		if !have[name] {
			w.t.Errorf("%s.%s is in the schema alone", path, name)
		}
	}
}
