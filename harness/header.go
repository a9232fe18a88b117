package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// Header says what a document was computed from, for verbs that have no trials. Its key is the hash of all that decides the numbers.
type Header struct {
	Schema  int        `json:"schema"`
	Kind    string     `json:"kind"`
	Tool    Tool       `json:"tool"`
	Command []string   `json:"command"`
	Key     string     `json:"key"`
	Model   ModelInfo  `json:"model"`
	Prompts HeaderText `json:"prompts"`
	Run     HeaderRun  `json:"run"`

	Environment Environment `json:"environment"`
}

// HeaderText identifies prompts by content and id.
type HeaderText struct {
	Source string `json:"source"`
	PlanPrompts
	Generated *NeedleOptions `json:"generated,omitempty"` // how they were made; absent for prompts of a file
}

// HeaderRun is what the last bits depend on.
type HeaderRun struct {
	Engine  int    `json:"engine"`
	DType   string `json:"dtype"`
	Device  string `json:"device"`
	Backend string `json:"backend"`
}

// HeaderRequest is what a header is made of.
type HeaderRequest struct {
	Kind       string
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Prompts    *PromptFile
	Command    []string
	Asked      any // what else decides the numbers; it is hashed by its JSON form and stored by the document itself
}

// NewHeader hashes model, prompts and request.
func NewHeader(ctx context.Context, r *HeaderRequest) (*Header, error) {
	c, m := r.Checkpoint, r.Model
	weights, err := WeightsSHA256(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &c.Spec
	h := &Header{
		Schema: schemaVersion, Kind: r.Kind, Tool: CurrentTool(), Command: append([]string{}, r.Command...),
		Model:       ModelInfo{c.Ref, c.Revision, s.Family, s.Layers, s.Heads, s.KVHeads, s.HeadDim, c.ConfigSHA256, c.Tokenizer.SHA256(), weights},
		Prompts:     HeaderText{r.Prompts.Source, planPrompts(r.Prompts), r.Prompts.Generated},
		Run:         HeaderRun{decoder.Engine, m.DType(), string(m.Backend().Kind), m.Backend().About},
		Environment: CurrentEnvironment(m.Backend()),
	}
	h.Key, err = h.KeyOf(r.Asked)
	return h, err
}

// KeyOf is the key of a document with this header that was asked for so.
func (h *Header) KeyOf(asked any) (string, error) {
	b, err := json.Marshal(struct {
		Schema                     int
		Kind                       string
		Config, Tokenizer, Weights string
		Prompts                    PlanPrompts
		Run                        HeaderRun
		Asked                      any
	}{h.Schema, h.Kind, h.Model.ConfigSHA256, h.Model.TokenizerSHA256, h.Model.WeightsSHA256, h.Prompts.PlanPrompts, h.Run, asked})
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:12], nil
}

// Path is <out>/<model>/<kind>_<key> and the ending; its folder is made.
func (h *Header) Path(out string, c *loader.Checkpoint, ending string) (string, error) {
	dir := filepath.Join(out, ModelFolder(c))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", folderError(err)
	}
	return filepath.Join(dir, h.Kind+"_"+h.Key+ending), nil
}

// Store writes a document with this header as <out>/<model>/<kind>_<key>.json and returns the path.
func (h *Header) Store(out string, c *loader.Checkpoint, document any) (string, error) {
	path, err := h.Path(out, c, ".json")
	if err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return path, WriteFile(path, append(b, '\n'))
}

// WithNeedle leaves out the prompts that are variants without their needle.
func (f *PromptFile) WithNeedle() *PromptFile {
	c := *f
	c.Specs = nil
	for _, s := range f.Specs {
		if s.Variant == "" {
			c.Specs = append(c.Specs, s)
		}
	}
	return &c
}
