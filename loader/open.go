package loader

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/headscope/headscope/loader/builtin"
	"github.com/headscope/headscope/loader/safetensors"
	"github.com/headscope/headscope/loader/tokenizer"
)

const (
	tokenizerFile       = "tokenizer.json"
	tokenizerConfigFile = "tokenizer_config.json"
	generationFile      = "generation_config.json"
	indexFile           = "model.safetensors.index.json"
	singleFile          = "model.safetensors"
)

// Checkpoint is an opened model: what it computes, its weights, its tokenizer. Close it to unmap the weights.
type Checkpoint struct {
	Ref          string // what Open was given
	Dir          string // folder the files lie in
	Revision     string // commit of the Hugging Face cache, empty for a folder outside one
	Spec         Spec
	Weights      *safetensors.Store
	Tokenizer    *tokenizer.Tokenizer // nil where the folder has no tokenizer.json
	ConfigSHA256 string               // of config.json, hexadecimal

	embedded fs.FS // the folder of a model inside the binary, else nil
}

// Open opens a checkpoint: a folder, a .safetensors file, which stands for its folder, org/name[@rev] in the local Hugging Face cache, or
// builtin:needle, the model inside the binary; a path that exists comes first. It never downloads. Only headers are read, the weights are mapped.
//
// Errors: *UnsupportedError for what this module does not compute, fs.ErrNotExist for what is not there, *safetensors.HeaderError and
// the like for damaged files; those with a way out have a method Hint() string.
func Open(ref string) (*Checkpoint, error) {
	c, err := find(ref)
	if err != nil {
		return nil, err
	}
	if err := c.readConfig(); err != nil {
		return nil, incomplete(err, ref, c.Revision)
	}
	if c.Weights, err = c.openWeights(); err != nil {
		return nil, incomplete(err, ref, c.Revision)
	}
	if err := c.check(); err != nil {
		if closeErr := c.Close(); closeErr != nil {
			return nil, errors.Join(err, closeErr)
		}
		return nil, err
	}
	return c, nil
}

// find says where a checkpoint lies.
func find(ref string) (*Checkpoint, error) {
	_, statErr := os.Stat(ref)
	if files, ok := builtin.Files(ref); ok && statErr != nil {
		return &Checkpoint{Ref: ref, Dir: ref, embedded: files}, nil
	}
	dir, revision, err := resolve(ref, os.Getenv)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Ref: ref, Dir: dir, Revision: revision}, nil
}

// readFile reads a file of the checkpoint's folder.
func (c *Checkpoint) readFile(name string) ([]byte, error) {
	if c.embedded != nil {
		return fs.ReadFile(c.embedded, name)
	}
	return os.ReadFile(filepath.Join(c.Dir, name))
}

// incomplete adds how the rest is fetched to an error about files that are not in a snapshot of the cache: a download may have stopped, or
// have been of some files alone.
func incomplete(err error, ref, revision string) error {
	hub, ok := parseHubRef(ref)
	var none *safetensors.OpenError
	var index *safetensors.IndexError
	gone := errors.As(err, &none) || errors.Is(err, fs.ErrNotExist) || errors.As(err, &index) && index.Rule == safetensors.RuleShardMissing
	if !ok || revision == "" || !gone {
		return err
	}
	return &hintError{err, "the snapshot is not complete: `" + hub.download() + "` fetches what is missing"}
}

// Close unmaps the weights; views of them end with it.
func (c *Checkpoint) Close() error { return c.Weights.Close() }

func (c *Checkpoint) readConfig() error {
	text, err := c.readFile(configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &hintError{fmt.Errorf("%s: got no %s, want a checkpoint in Hugging Face's layout: %w", c.Dir, configFile, fs.ErrNotExist),
			"the folder needs config.json, tokenizer.json and model.safetensors; `headscope import FILE.gguf DIR` makes one of a GGUF file"}
	}
	if err != nil {
		return err
	}
	generation, err := c.readFile(generationFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.ConfigSHA256 = sha256Hex(text)
	c.Spec, err = ParseConfig(text, generation)
	return withHint(err, "the file is damaged or was changed by hand: fetch it again")
}

// mismatchHint goes with weights that are not those of the config.
const mismatchHint = "config.json and the weights are of two checkpoints, or the download is incomplete: fetch them again"

func (c *Checkpoint) check() error {
	copies, err := checkWeights(&c.Spec, c.Weights)
	if err != nil {
		return withHint(err, mismatchHint)
	}
	for _, name := range copies {
		if err := checkTiedHead(&c.Spec, c.Weights, name); err != nil {
			return withHint(err, mismatchHint)
		}
	}
	return c.readTokenizer()
}

// readTokenizer loads the folder's tokenizer, if it has one.
func (c *Checkpoint) readTokenizer() error {
	t, err := c.loadTokenizer()
	if t == nil && err == nil {
		return nil
	}
	if errors.Is(err, tokenizer.ErrUnsupported) {
		return &UnsupportedError{File: tokenizerFile, Err: err}
	}
	if err != nil {
		return withHint(err, "the tokenizer's files are damaged or were changed by hand: fetch them again")
	}
	if n := t.VocabSize(); n > c.Spec.Vocab {
		last, _ := t.Token(int32(n - 1))
		return &hintError{fmt.Errorf("%s: token %q: got id %d, want one of the %d rows of the embedding", tokenizerFile, last, n-1, c.Spec.Vocab),
			"the tokenizer belongs to another checkpoint, or tokens were added without resizing the embedding"}
	}
	c.Tokenizer = t
	return nil
}

// loadTokenizer returns nil where there is none.
func (c *Checkpoint) loadTokenizer() (*tokenizer.Tokenizer, error) {
	if c.embedded != nil {
		file, err := c.readFile(tokenizerFile)
		if err != nil {
			return nil, err
		}
		config, err := c.readFile(tokenizerConfigFile)
		if err != nil {
			return nil, err
		}
		return tokenizer.Parse(file, config)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, tokenizerFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	return tokenizer.Load(c.Dir)
}

// openWeights opens the checkpoint's weights.
func (c *Checkpoint) openWeights() (*safetensors.Store, error) {
	if c.embedded == nil {
		return openWeights(c.Ref, c.Dir)
	}
	data, err := c.readFile(singleFile)
	if err != nil {
		return nil, err
	}
	return safetensors.OpenReader(c.Dir+"/"+singleFile, bytes.NewReader(data), int64(len(data)))
}

// openWeights opens the folder's weights. A .safetensors reference has to be among them: opening other weights than the ones named
// would be worse than opening none. A folder with neither of the usual names has the named file alone.
func openWeights(ref, dir string) (*safetensors.Store, error) {
	named, err := os.Stat(ref)
	if err != nil || named.IsDir() {
		return safetensors.Open(dir)
	}
	store, err := safetensors.Open(dir)
	var none *safetensors.OpenError
	if errors.As(err, &none) {
		return safetensors.Open(ref)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range store.Files() {
		if st, err := os.Stat(path); err == nil && os.SameFile(st, named) {
			return store, nil
		}
	}
	err = fmt.Errorf("%s: got a file beside the checkpoint, want one of %s", ref, strings.Join(store.Files(), ", "))
	return nil, errors.Join(err, store.Close())
}

// resolve turns a reference into a folder and, inside a Hugging Face cache, its commit.
func resolve(ref string, getenv func(string) string) (dir, commit string, err error) {
	st, err := os.Stat(ref)
	switch {
	case err == nil && st.IsDir():
		return ref, commitOf(ref), nil
	case err == nil && strings.HasSuffix(ref, ".safetensors"):
		return filepath.Dir(ref), commitOf(filepath.Dir(ref)), nil
	case err == nil && strings.HasSuffix(ref, ".gguf"):
		return "", "", &UnsupportedError{File: ref, Key: "format", Got: "a GGUF file", Want: "a checkpoint folder",
			hint: fmt.Sprintf("make one with `headscope import %s DIR`", ref)}
	case err == nil:
		return "", "", &hintError{fmt.Errorf("%s: got a file, want a checkpoint folder, a .safetensors file in one, or org/name[@rev]", ref),
			"name the folder that holds config.json"}
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	}
	hub, ok := parseHubRef(ref)
	if !ok {
		return "", "", &hintError{fmt.Errorf("%s: no such folder, nor of the form org/name[@rev]: %w", ref, fs.ErrNotExist),
			"give a folder with config.json, builtin:needle, or a model of the local Hugging Face cache such as HuggingFaceTB/SmolLM2-135M-Instruct"}
	}
	cache, err := hubCacheDir(getenv)
	if err != nil {
		return "", "", err
	}
	return hub.find(cache)
}

// commitOf names the commit of a folder that is itself a snapshot of the cache.
func commitOf(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	if base := filepath.Base(abs); commitHash.MatchString(base) && filepath.Base(filepath.Dir(abs)) == "snapshots" {
		return base
	}
	return ""
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
