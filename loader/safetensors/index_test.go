package safetensors

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// indexCase is a change to the golden index and the rule it breaks, empty for none.
type indexCase struct {
	name   string
	change func(b []byte) []byte
	rule   Rule
}

func indexCases() []indexCase {
	replace := func(old, new string) func(b []byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	whole := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	const lmHead = `"lm_head.weight": "` + shard2 + `",`
	total := func(text string) func([]byte) []byte { return replace("330048", text) }
	return []indexCase{
		{"untouched", replace("", ""), ""},
		{"no total_size", replace(`"total_size"`, `"total_sizes"`), ""},
		{"total_size as a float", total("330048.0"), ""},
		{"total_size with an exponent", total("3.30048e5"), ""},
		{"more metadata", replace(`"total_size"`, `"x": {"y": [null, true, -1.5e-3, "z", [], {}]}, "total_size"`), ""},
		{"metadata null", whole(`{"metadata": null, "weight_map": {"only": "x.safetensors"}}`), RuleShardMissing},
		{"wrong total_size", total("330049"), RuleIndexTotalSize},
		{"total_size a fraction", total("330048.5"), RuleIndexTotalSize},
		{"total_size a string", total(`"330048"`), RuleIndexTotalSize},
		{"total_size huge", total("1e999999999"), RuleIndexTotalSize},
		{"total_size tiny", total("1e-999999999"), RuleIndexTotalSize},
		{"total_size long", total(strings.Repeat("9", 1_000_000)), RuleIndexTotalSize},
		{"tensor missing from the map", replace(lmHead, ""), RuleIndexTensorExtra},
		{"tensor missing from its shard", replace(lmHead, lmHead+`"more.weight": "`+shard2+`",`), RuleIndexTensorMissing},
		{"tensor mapped to the other shard", replace(lmHead, `"lm_head.weight": "`+shard1+`",`), RuleIndexTensorMissing},
		{"tensor mapped twice", replace(lmHead, lmHead+lmHead), RuleDuplicateKey},
		{"two weight maps", replace(`"weight_map"`, `"weight_map": {}, "weight_map"`), RuleDuplicateKey},
		{"total_size twice", replace(`"total_size"`, `"total_size": 1, "total_size"`), RuleDuplicateKey},
		{"nested key twice", replace(`"total_size"`, `"x": {"y": 1, "y": 1}, "total_size"`), RuleDuplicateKey},
		{"shard not there", replace(lmHead, `"lm_head.weight": "model-00003-of-00003.safetensors",`), RuleShardMissing},
		{"shard in the parent", replace(lmHead, `"lm_head.weight": "../`+shard2+`",`), RuleShardName},
		{"shard by absolute path", replace(lmHead, `"lm_head.weight": "/etc/passwd",`), RuleShardName},
		{"shard in a subfolder", replace(lmHead, `"lm_head.weight": "sub/`+shard2+`",`), RuleShardName},
		{"shard with a backslash", replace(lmHead, `"lm_head.weight": "..\\`+shard2+`",`), RuleShardName},
		{"shard with a drive", replace(lmHead, `"lm_head.weight": "C:`+shard2+`",`), RuleShardName},
		{"shard with NUL", replace(lmHead, `"lm_head.weight": "`+shard2+`\u0000",`), RuleShardName},
		{"shard empty", replace(lmHead, `"lm_head.weight": "",`), RuleShardName},
		{"shard is the folder", replace(lmHead, `"lm_head.weight": ".",`), RuleShardName},
		{"shard is the parent", replace(lmHead, `"lm_head.weight": "..",`), RuleShardName},
		{"shard a number", replace(lmHead, `"lm_head.weight": 2,`), RuleIndexField},
		{"weight_map an array", whole(`{"weight_map": []}`), RuleIndexField},
		{"weight_map empty", whole(`{"weight_map": {}}`), RuleIndexField},
		{"no weight_map", whole(`{"metadata": {"total_size": 0}}`), RuleIndexField},
		{"cut off", func(b []byte) []byte { return b[:len(b)/2] }, RuleJSON},
		{"empty", whole(``), RuleJSON},
		{"text behind", func(b []byte) []byte { return append(b, "{}"...) }, RuleJSON},
		{"bad number", total("-"), RuleJSON},
		{"bad literal", replace(`"total_size"`, `"x": nul, "total_size"`), RuleJSON},
		{"nested deep", whole(`{"x": ` + strings.Repeat("[", 5_000_000)), RuleJSON},
		{"not UTF-8", whole("{\"\xff\": 1}"), RuleUTF8},
	}
}

func TestIndexRules(t *testing.T) {
	for _, c := range indexCases() {
		t.Run(c.name, func(t *testing.T) {
			dir := copySharded(t)
			path := filepath.Join(dir, indexFile)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			after := c.change(bytes.Clone(before))
			if c.name != "untouched" && bytes.Equal(before, after) {
				t.Fatal("the case changes nothing")
			}
			if err := os.WriteFile(path, after, 0o644); err != nil {
				t.Fatal(err)
			}
			checkIndex(t, dir, c.rule)
		})
	}
	t.Run("tensor in two shards", func(t *testing.T) {
		dir := copySharded(t)
		f, err := OpenFile(filepath.Join("testdata", "sharded", shard1))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		entries := append(entriesOf(t, f), Entry{"lm_head.weight", U8, []int{1}, Bytes([]byte{1})})
		if err := WriteFile(filepath.Join(dir, shard1), entries, nil); err != nil {
			t.Fatal(err)
		}
		checkIndex(t, dir, RuleIndexTensorTwice)
	})
}

func checkIndex(t *testing.T, dir string, rule Rule) {
	t.Helper()
	store, err := Open(dir)
	if rule == "" {
		if err != nil {
			t.Fatal(err)
		}
		if len(store.Names()) != 30 {
			t.Errorf("got %d tensors, want 30", len(store.Names()))
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	var bad *IndexError
	if !errors.As(err, &bad) || bad.Rule != rule || bad.File != filepath.Join(dir, indexFile) {
		t.Errorf("got %v, want an *IndexError with rule %q", err, rule)
	}
	if err != nil && len(err.Error()) > 600 {
		t.Errorf("error text of %d bytes: a file decides its length", len(err.Error()))
	}
}
