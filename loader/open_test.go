package loader_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

// folder writes a small checkpoint, its weights changed by edit, and returns its folder.
func folder(t *testing.T, o loadertest.Options, edit func([]safetensors.Entry) []safetensors.Entry) string {
	t.Helper()
	dir := t.TempDir()
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	if edit == nil {
		return dir
	}
	path := filepath.Join(dir, "model.safetensors")
	store, err := safetensors.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := safetensors.WriteFile(path, edit(entriesOf(t, store)), nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// entriesOf copies the tensors of a store.
func entriesOf(t *testing.T, store *safetensors.Store) []safetensors.Entry {
	t.Helper()
	var entries []safetensors.Entry
	for _, name := range store.Names() {
		info, _ := store.Info(name)
		view, err := store.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, safetensors.Entry{Name: name, DType: info.DType, Shape: info.Shape, Write: safetensors.Bytes(slices.Clone(view))})
	}
	return entries
}

func zeros(name string, dtype safetensors.DType, shape ...int) safetensors.Entry {
	n := dtype.Bits() / 8
	for _, d := range shape {
		n *= d
	}
	return safetensors.Entry{Name: name, DType: dtype, Shape: shape, Write: safetensors.Bytes(make([]byte, n))}
}

func without(name string) func([]safetensors.Entry) []safetensors.Entry {
	return func(e []safetensors.Entry) []safetensors.Entry {
		return slices.DeleteFunc(e, func(x safetensors.Entry) bool { return x.Name == name })
	}
}

func replaced(by safetensors.Entry) func([]safetensors.Entry) []safetensors.Entry {
	return func(e []safetensors.Entry) []safetensors.Entry { return append(without(by.Name)(e), by) }
}

// headIsEmbedding stores the tied output matrix as well.
func headIsEmbedding(e []safetensors.Entry) []safetensors.Entry {
	for _, x := range e {
		if x.Name == "model.embed_tokens.weight" {
			x.Name = "lm_head.weight"
			return append(e, x)
		}
	}
	return e
}

func mustOpen(t *testing.T, ref string) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOpenRefusesWeights(t *testing.T) {
	type edit = func([]safetensors.Entry) []safetensors.Entry
	const q = "model.layers.1.self_attn.q_proj.weight"
	for name, tc := range map[string]struct {
		options     loadertest.Options
		edit        edit
		unsupported bool
		contains    string
	}{
		"missing":        {edit: without(q), contains: "weights: " + q + ": got no such tensor, want one of shape [64 32]"},
		"missing bias":   {options: loadertest.Options{AttentionBias: true}, edit: without("model.layers.0.self_attn.o_proj.bias"), contains: "o_proj.bias"},
		"missing head":   {edit: without("lm_head.weight"), contains: "lm_head.weight: got no such tensor"},
		"shape":          {edit: replaced(zeros(q, safetensors.F32, 32, 64)), contains: "model.safetensors: " + q + ": got shape [32 64], want [64 32]"},
		"rank":           {edit: replaced(zeros("model.norm.weight", safetensors.F32, 1, 32)), contains: "model.norm.weight: got shape [1 32], want [32]"},
		"integer":        {edit: replaced(zeros(q, safetensors.I8, 64, 32)), unsupported: true, contains: q + ": got dtype I8"},
		"double":         {edit: replaced(zeros(q, safetensors.F64, 64, 32)), unsupported: true, contains: q + ": got dtype F64"},
		"stray bias":     {edit: replaced(zeros("model.layers.0.self_attn.q_proj.bias", safetensors.F32, 64)), unsupported: true, contains: "q_proj.bias: got a tensor that config.json does not account for"},
		"stray layer":    {edit: replaced(zeros("model.layers.2.mlp.up_proj.weight", safetensors.F32, 48, 32)), unsupported: true, contains: "model.layers.2"},
		"q norm":         {edit: replaced(zeros("model.layers.0.self_attn.q_norm.weight", safetensors.F32, 16)), unsupported: true, contains: "q_norm"},
		"tied, other":    {options: loadertest.Options{Tied: true}, edit: replaced(zeros("lm_head.weight", safetensors.F32, 64, 32)), contains: "lm_head.weight: got values other than those of model.embed_tokens.weight"},
		"almost rotary":  {edit: replaced(zeros("model.layers.0.self_attn.rotary_emb.inv_freq2", safetensors.F32, 8)), unsupported: true, contains: "inv_freq2"},
		"outer position": {edit: replaced(zeros("model.embed_positions.weight", safetensors.F32, 512, 32)), unsupported: true, contains: "embed_positions"},
	} {
		c, err := loader.Open(folder(t, tc.options, tc.edit))
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tc.contains) || isUnsupported(err) != tc.unsupported {
			t.Errorf("%s: got %v, want an error with %q, unsupported %v", name, err, tc.contains, tc.unsupported)
		}
	}
}

func TestOpenTakesHarmlessExtras(t *testing.T) {
	buffers := func(e []safetensors.Entry) []safetensors.Entry {
		return append(e, zeros("model.layers.0.self_attn.rotary_emb.inv_freq", safetensors.F32, 8), zeros("model.rotary_emb.inv_freq", safetensors.F32, 8))
	}
	mustOpen(t, folder(t, loadertest.Options{}, buffers))
	c := mustOpen(t, folder(t, loadertest.Options{Tied: true}, headIsEmbedding))
	if c.Spec.Params.Head.Has() || !c.Spec.Tied {
		t.Errorf("got head %v, tied %v, want the embedding", c.Spec.Params.Head, c.Spec.Tied)
	}
	norm := replaced(zeros("model.norm.weight", safetensors.F32, 32))
	if c := mustOpen(t, folder(t, loadertest.Options{BFloat16: true}, norm)); c.Spec.DType != "bfloat16" {
		t.Errorf("got dtype %s of bfloat16 matrices with a float32 norm", c.Spec.DType)
	}
}

func TestOpenByFile(t *testing.T) {
	const sharded = "testdata/parity/llama_gqa_llama3rope"
	c := mustOpen(t, sharded+"/model-00002-of-00002.safetensors")
	if c.Dir != sharded || len(c.Weights.Files()) != 2 {
		t.Errorf("got folder %s with %d files, want %s with 2", c.Dir, len(c.Weights.Files()), sharded)
	}
	if _, err := loader.Open(sharded + "/golden.safetensors"); err == nil || !strings.Contains(err.Error(), "beside the checkpoint") {
		t.Errorf("a file beside the weights: got %v", err)
	}
	dir := folder(t, loadertest.Options{}, nil)
	only := filepath.Join(dir, "weights.safetensors")
	if err := os.Rename(filepath.Join(dir, "model.safetensors"), only); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, only)
	if _, err := loader.Open(dir); err == nil {
		t.Error("a folder with an unusual file name opened without the name")
	}
}

func TestOpenNothing(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	dir := t.TempDir()
	gguf := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(gguf, []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for ref, tc := range map[string]struct {
		contains, hint string
		notExist       bool
	}{
		dir:                   {"got no config.json", "headscope import", true},
		gguf:                  {"GGUF", "headscope import " + gguf, false},
		"no-such-thing":       {"no such folder", "config.json", true},
		"../../etc":           {"no such folder", "", true},
		"org/name":            {"org/name: not in the Hugging Face cache", "hf download org/name", true},
		"org/../name":         {"no such folder", "", true},
		"org/name@../../x":    {"no such folder", "", true},
		"config_test.go":      {"got a file", "", false},
		"testdata/parity":     {"got no config.json", "", true},
		"org/name/extra/part": {"no such folder", "", true},
	} {
		_, err := loader.Open(ref)
		var hinted interface{ Hint() string }
		switch {
		case err == nil || !strings.Contains(err.Error(), tc.contains):
			t.Errorf("%s: got %v, want an error with %q", ref, err, tc.contains)
		case errors.Is(err, fs.ErrNotExist) != tc.notExist:
			t.Errorf("%s: errors.Is(%v, fs.ErrNotExist) is %v", ref, err, !tc.notExist)
		case tc.hint != "" && (!errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), tc.hint)):
			t.Errorf("%s: got %v, want a hint with %q", ref, err, tc.hint)
		}
	}
}

func TestHubCache(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	home := t.TempDir()
	repo := filepath.Join(home, "huggingface", "hub", "models--org--tiny.model-1")
	snapshot := filepath.Join(repo, "snapshots", commit)
	blobs := filepath.Join(repo, "blobs")
	for _, d := range []string{snapshot, blobs, filepath.Join(repo, "refs", "refs", "pr")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := loadertest.Write(blobs, loadertest.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"config.json", "model.safetensors"} { // snapshots hold links, as the Hub client makes them
		if err := os.Symlink(filepath.Join("..", "..", "blobs", f), filepath.Join(snapshot, f)); err != nil {
			t.Fatal(err)
		}
	}
	for ref, text := range map[string]string{"main": commit, "refs/pr/3": commit + "\n", "broken": "not a commit", "gone": strings.Repeat("f", 40)} {
		if err := os.WriteFile(filepath.Join(repo, "refs", filepath.FromSlash(ref)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []string{"HF_HUB_CACHE", "HF_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("XDG_CACHE_HOME", home)
	for _, ref := range []string{"org/tiny.model-1", "org/tiny.model-1@main", "org/tiny.model-1@refs/pr/3", "org/tiny.model-1@" + commit, snapshot} {
		c := mustOpen(t, ref)
		if c.Revision != commit || c.Dir != snapshot || c.Ref != ref {
			t.Errorf("%s: got revision %q in %s", ref, c.Revision, c.Dir)
		}
	}
	for ref, want := range map[string]string{
		"org/tiny.model-1@broken": "want a commit hash", "org/tiny.model-1@gone": `revision "gone" is not in`,
		"org/tiny.model-1@dev": `revision "dev" is not in`, "org/tiny.model-1@" + strings.Repeat("e", 40): "is not in", "org/other": "not in the Hugging Face cache",
	} {
		if _, err := loader.Open(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", ref, err, want)
		}
	}
	var hinted interface{ Hint() string }
	if _, err := loader.Open("org/tiny.model-1@dev"); !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "main") ||
		!strings.Contains(hinted.Hint(), "`hf download org/tiny.model-1 --revision dev`") {
		t.Errorf("got %v, want a hint that fetches dev and lists main", err)
	}
	// The order of the variables is huggingface_hub's.
	t.Setenv("HF_HOME", filepath.Join(home, "huggingface"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	mustOpen(t, "org/tiny.model-1")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	if _, err := loader.Open("org/tiny.model-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("HF_HUB_CACHE does not win: %v", err)
	}
}

// A sharded checkpoint lies in the cache as links to blobs that have hashes for names.
func TestHubCacheShards(t *testing.T) {
	const commit = "89abcdef0123456789abcdef0123456789abcdef"
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	repo := filepath.Join(os.Getenv("HF_HUB_CACHE"), "models--org--sharded")
	snapshot := filepath.Join(repo, "snapshots", commit)
	for _, d := range []string{snapshot, filepath.Join(repo, "blobs"), filepath.Join(repo, "refs")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "refs", "main"), []byte(commit), 0o644); err != nil {
		t.Fatal(err)
	}
	const from = "testdata/parity/olmo2"
	shards := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"}
	for i, f := range append([]string{"config.json", "model.safetensors.index.json"}, shards...) {
		blob := strings.Repeat(string('a'+rune(i)), 64)
		if err := os.WriteFile(filepath.Join(repo, "blobs", blob), read(t, from, f), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob), filepath.Join(snapshot, f)); err != nil {
			t.Fatal(err)
		}
	}
	c := mustOpen(t, "org/sharded")
	if c.Revision != commit || len(c.Weights.Files()) != 3 {
		t.Errorf("got revision %q, %d files", c.Revision, len(c.Weights.Files()))
	}
	for _, gone := range []string{shards[1], "model.safetensors.index.json", "config.json"} { // as after a download that stopped
		if err := os.Remove(filepath.Join(snapshot, gone)); err != nil {
			t.Fatal(err)
		}
		var hinted interface{ Hint() string }
		if _, err := loader.Open("org/sharded"); !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "`hf download org/sharded` fetches what is missing") {
			t.Errorf("without %s: got %v, want a hint that fetches it", gone, err)
		}
	}
}

func TestOpenTokenizer(t *testing.T) {
	data := read(t, "tokenizer/testdata/tiny/tiny_gpt2.tokenizer.json")
	place := func(dir string, data []byte) string {
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	c := mustOpen(t, place(folder(t, loadertest.Options{Vocab: 5000}, nil), data))
	if c.Tokenizer == nil {
		t.Fatal("got no tokenizer")
	}
	n := c.Tokenizer.VocabSize()
	mustOpen(t, place(folder(t, loadertest.Options{Vocab: n}, nil), data))
	if _, err := loader.Open(place(folder(t, loadertest.Options{Vocab: n - 1}, nil), data)); err == nil || !strings.Contains(err.Error(), "tokenizer.json: token") {
		t.Errorf("a vocabulary larger than the embedding: got %v", err)
	}
	if _, err := loader.Open(place(folder(t, loadertest.Options{}, nil), data[:len(data)/2])); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("half a tokenizer.json: got %v", err)
	}
	if c := mustOpen(t, folder(t, loadertest.Options{}, nil)); c.Tokenizer != nil {
		t.Error("got a tokenizer out of nothing")
	}
	unigram := []byte(`{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0.0]]}}`)
	if _, err := loader.Open(place(folder(t, loadertest.Options{}, nil), unigram)); !isUnsupported(err) {
		t.Errorf("a tokenizer of another kind: got %v, want unsupported", err)
	}
}
