package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ardanlabs/jinja"
)

// Tokenizer is a tokenizer.json ready to run. It does not change after Load and is safe for concurrent use.
type Tokenizer struct {
	added         []AddedToken
	addedIDs      map[string]int32
	special       map[string]bool
	raw           *matcher // added tokens looked for in the text as it is
	normalized    *matcher // added tokens looked for after the normalizer
	normalizer    normalizers
	preTokenizers []preTokenizer
	model         *bpe
	decoder       decoder
	post          postProcessor

	names         []string // token of each id, "" where known is false
	known         []bool
	bos, eos, pad string
	unk           string
	template      string
	chat          func() (*jinja.Template, error) // of template, once
	sha256        string
	pool          sync.Pool // of *scratch
}

const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
	templateFile  = "chat_template.jinja"
)

// Load reads dir/tokenizer.json and, where present, dir/tokenizer_config.json and dir/chat_template.jinja.
func Load(dir string) (*Tokenizer, error) {
	data, err := os.ReadFile(filepath.Join(dir, tokenizerFile))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	config, err := optional(filepath.Join(dir, configFile))
	if err != nil {
		return nil, err
	}
	template, err := optional(filepath.Join(dir, templateFile))
	if err != nil {
		return nil, err
	}
	t, err := Parse(data, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if template != nil {
		t.template = string(template)
	}
	return t, nil
}

func optional(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return data, nil
}

// Parse makes a tokenizer from the contents of a tokenizer.json and of a tokenizer_config.json, which may be empty. Errors
// name the file and the part of it; they wrap [ErrUnsupported] where the file is sound but uses what this package lacks.
func Parse(tokenizerJSON, config []byte) (*Tokenizer, error) {
	cfg, err := readConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	var f fileJSON
	if err := json.Unmarshal(tokenizerJSON, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	t := &Tokenizer{bos: cfg.BOS.Content, eos: cfg.EOS.Content, pad: cfg.PAD.Content, unk: cfg.UNK.Content, template: string(cfg.ChatTemplate)}
	t.chat = sync.OnceValues(t.compileChat)
	t.pool.New = func() any { return newScratch() }
	if err := t.build(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	added, err := cfg.mergeAdded(f.AddedTokens)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	if err := t.setAdded(cfg.mergeNamed(added, t.model.vocab)); err != nil {
		return nil, fmt.Errorf("%s: added_tokens: %w", tokenizerFile, err)
	}
	for _, id := range slices.Concat(t.post.prefix, t.post.suffix) {
		if _, ok := t.Token(id); !ok {
			return nil, fmt.Errorf("%s: post_processor: adds id %d, which is no token", tokenizerFile, id)
		}
	}
	sum := sha256.Sum256(tokenizerJSON)
	t.sha256 = hex.EncodeToString(sum[:])
	return t, nil
}

// build makes the stages of the pipeline.
func (t *Tokenizer) build(f *fileJSON) error {
	if f.Model == nil {
		return errors.New("model: missing")
	}
	var err error
	if t.normalizer, err = buildNormalizers(f.Normalizer); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	var byteLevel bool
	if t.preTokenizers, byteLevel, err = buildPreTokenizers(f.PreTokenizer); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.model, err = f.Model.build(byteLevel); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if t.post, err = buildPostProcessor(f.PostProcessor); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	if t.decoder, err = buildDecoder(f.Decoder); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	return nil
}

// setAdded takes in the added tokens and numbers all tokens.
func (t *Tokenizer) setAdded(added []AddedToken) error {
	t.added = added
	t.addedIDs, t.special = make(map[string]int32, len(added)), make(map[string]bool)
	t.raw, t.normalized = newMatcher(), newMatcher()
	if err := t.number(t.model.vocab); err != nil {
		return err
	}
	for _, tok := range added {
		if _, twice := t.addedIDs[tok.Content]; twice {
			return fmt.Errorf("%q: got it twice", tok.Content)
		}
		if id, ok := t.model.vocab[tok.Content]; ok && id != tok.ID {
			return fmt.Errorf("%q: got id %d, want %d as in the vocabulary", tok.Content, tok.ID, id)
		}
		t.addedIDs[tok.Content] = tok.ID
		if tok.Special {
			t.special[tok.Content] = true
		}
		if tok.Normalized {
			t.normalized.add(t.normalizer.normalize(piece{text: tok.Content}).text, tok)
		} else {
			t.raw.add(tok.Content, tok)
		}
	}
	return t.number(t.addedIDs)
}

// number enters tokens under their ids and refuses an id that stands for two of them.
func (t *Tokenizer) number(ids map[string]int32) error {
	limit := int32(4*(len(t.model.vocab)+len(ids)) + 1<<16) // a sparse vocabulary is a broken one, and would be allocated
	top := int32(len(t.names))
	for tok, id := range ids {
		if id < 0 || id >= limit {
			return fmt.Errorf("token %q: got id %d, want 0 to %d for a vocabulary of this size", tok, id, limit-1)
		}
		top = max(top, id+1)
	}
	t.names = append(t.names, make([]string, int(top)-len(t.names))...)
	t.known = append(t.known, make([]bool, int(top)-len(t.known))...)
	for tok, id := range ids {
		if t.known[id] && t.names[id] != tok {
			return fmt.Errorf("id %d: got two tokens, %q and %q", id, t.names[id], tok)
		}
		t.names[id], t.known[id] = tok, true
	}
	return nil
}

// Token returns the token of an id as the file writes it (byte-level tokens in the byte alphabet).
func (t *Tokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.names) || !t.known[id] {
		return "", false
	}
	return t.names[id], true
}

// ID returns the id of a token as the file writes it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.addedIDs[token]; ok {
		return id, true
	}
	id, ok := t.model.vocab[token]
	return id, ok
}

// VocabSize returns the largest id plus one. An embedding may have more rows than that.
func (t *Tokenizer) VocabSize() int { return len(t.names) }

// AddedTokens returns the tokens that are looked for in the text itself, special or not.
func (t *Tokenizer) AddedTokens() []AddedToken { return slices.Clone(t.added) }

// BOS returns the beginning-of-sequence token of tokenizer_config.json, "" if it has none. Whether it is added is the
// post-processor's business: see AddsSpecial.
func (t *Tokenizer) BOS() string { return t.bos }

// EOS returns the end-of-sequence token of tokenizer_config.json, "" if it has none.
func (t *Tokenizer) EOS() string { return t.eos }

// PAD returns the padding token of tokenizer_config.json, "" if it has none.
func (t *Tokenizer) PAD() string { return t.pad }

// ChatTemplate returns the Jinja source of the chat template, "" if there is none.
func (t *Tokenizer) ChatTemplate() string { return t.template }

// AddsSpecial says whether Options.AddSpecial adds any token: what HF's tokenizer does by default.
func (t *Tokenizer) AddsSpecial() bool { return len(t.post.prefix)+len(t.post.suffix) > 0 }

// SHA256 returns the hex digest of the bytes of tokenizer.json.
func (t *Tokenizer) SHA256() string { return t.sha256 }
