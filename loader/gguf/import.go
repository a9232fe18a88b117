package gguf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headscope/headscope/loader/safetensors"
)

// ImportOptions changes how Import works; the zero value is the plain case.
type ImportOptions struct {
	// Overwrite replaces a folder that an earlier import wrote. A folder that holds any other file is refused even then.
	Overwrite bool
	// Progress, if not nil, is called after every tensor.
	Progress func(done, total int)
}

// Report says what Import read and wrote.
type Report struct {
	Name         string // general.name, may be empty
	Architecture string
	PreTokenizer string // tokenizer.ggml.pre
	Version      int    // of GGUF

	Tensors    int            // written
	Types      map[string]int // tensors of the GGUF file by storage format
	Parameters int64
	Tied       bool // the output matrix is the embedding
	Vocab      int  // tokens of the tokenizer

	Dir   string
	Files []string // names in Dir
	// Notes are things that a careful user should know of this file; none of them is an error.
	Notes []string
}

// Import converts a GGUF file of architecture "llama" into a Hugging Face folder: config.json, model.safetensors in bfloat16,
// tokenizer.json and tokenizer_config.json. Weights are dequantised to float32 and rounded to bfloat16, nearest even; the rows of
// q_proj and k_proj go back to rotate_half order.
//
// The folder appears whole or not at all. Its parent is created; a folder with content is refused unless opts.Overwrite.
// Whatever cannot be converted exactly is an [UnsupportedError]. Memory stays at one head's or a few rows' weights plus the
// vocabulary.
func Import(ctx context.Context, ggufPath, dir string, opts ImportOptions) (*Report, error) {
	f, err := Open(ggufPath)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := newConversion(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ggufPath, err)
	}
	s, err := newStage(dir, opts.Overwrite)
	if err != nil {
		return nil, err
	}
	err = c.write(ctx, s, opts.Progress)
	if err == nil {
		err = s.commit(opts.Overwrite)
	}
	if e := s.discard(); e != nil {
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: import of %s: %w", dir, ggufPath, err)
	}
	return c.report(dir), nil
}

// conversion is a GGUF file that has been understood completely.
type conversion struct {
	f     *File
	model *llama
	plan  *tensorPlan
	vocab *vocabulary

	packed []byte    // some rows as the file has them
	values []float32 // the rows in hand
	raw    []byte    // the same as bfloat16
}

func newConversion(f *File) (*conversion, error) {
	c := &conversion{f: f}
	var err error
	if c.model, err = readLlama(f); err != nil {
		return nil, err
	}
	if c.plan, err = planTensors(f, c.model); err != nil {
		return nil, err
	}
	if c.vocab, err = readVocabulary(f, c.model.vocab); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *conversion) write(ctx context.Context, s *stage, progress func(done, total int)) error {
	entries := make([]safetensors.Entry, len(c.plan.sources))
	for i, src := range c.plan.sources {
		entries[i] = safetensors.Entry{Name: src.name, DType: safetensors.BF16, Shape: src.shape, Write: func(w io.Writer) error {
			if err := c.writeTensor(ctx, w, src); err != nil {
				return err
			}
			if progress != nil {
				progress(i+1, len(entries))
			}
			return nil
		}}
	}
	if err := safetensors.WriteFile(s.path(weightsName), entries, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	if err := s.writeJSON(configName, c.model.configJSON(c.plan, c.vocab.ids), 2); err != nil {
		return err
	}
	if err := s.writeJSON(tokenizerName, c.vocab.tokenizerJSON(), 0); err != nil {
		return err
	}
	if err := s.writeJSON(tokenizerConfigName, c.vocab.configJSON(c.model.context), 2); err != nil {
		return err
	}
	return ctx.Err()
}

// writeTensor writes one tensor as bfloat16, some rows at a time: a head's where rows must change places.
func (c *conversion) writeTensor(ctx context.Context, w io.Writer, src source) error {
	t, err := c.f.readable(src.from)
	if err != nil {
		return err
	}
	rows, rowLen := t.Rows(), t.RowLen()
	step := max(1, (64<<10)/rowLen)
	width := rowLen // of what changes places: a matrix's rows, a bias's elements
	if len(t.Shape) == 1 {
		width = 1
	}
	var order []int
	if src.heads > 0 {
		headDim := t.Shape[0] / src.heads
		order = rotateHalfOrder(headDim)
		step = headDim // a bias is one row, and so read at once
	}
	for first := 0; first < rows; first += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(step, rows-first) * rowLen
		c.values = grow(c.values, n)
		if err := c.f.readRows(t, first, c.values, &c.packed); err != nil {
			return err
		}
		c.raw = grow(c.raw, 2*n)
		encodeBF16(c.raw, c.values, width, order)
		if _, err := w.Write(c.raw); err != nil {
			return err
		}
	}
	return nil
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// encodeBF16 rounds rows of the given width into out. With an order, row r of every len(order) rows comes from row order[r].
func encodeBF16(out []byte, values []float32, width int, order []int) {
	if order == nil {
		for i, x := range values {
			binary.LittleEndian.PutUint16(out[2*i:], safetensors.BF16FromFloat32(x))
		}
		return
	}
	for row := range len(values) / width {
		head := row / len(order) * len(order)
		from := head + order[row-head]
		encodeBF16(out[2*row*width:], values[from*width:(from+1)*width], width, nil)
	}
}

// rotateHalfOrder returns, for every row of a head in rotate_half order, its row in llama.cpp's order. See [rotateHalfRow].
func rotateHalfOrder(headDim int) []int {
	order := make([]int, headDim)
	for r := range order {
		order[r] = rotateHalfRow(r, headDim)
	}
	return order
}

// rotateHalfRow returns where llama.cpp keeps row r of a head. transformers rotates dimension i with dimension i+headDim/2;
// llama.cpp's converter (LlamaModel.permute) puts these two next to each other, at 2i and 2i+1.
func rotateHalfRow(r, headDim int) int {
	half := headDim / 2
	return 2*(r%half) + r/half
}

func (c *conversion) report(dir string) *Report {
	k := &keys{f: c.f}
	r := &Report{
		Name:         k.text("general.name", ""),
		Architecture: k.text("general.architecture", ""),
		PreTokenizer: k.text("tokenizer.ggml.pre", ""),
		Version:      int(c.f.Version),
		Tensors:      len(c.plan.sources),
		Types:        map[string]int{},
		Parameters:   c.plan.parameters,
		Tied:         c.plan.tied,
		Vocab:        len(c.vocab.tokens),
		Dir:          dir,
		Files:        fileNames(),
		Notes:        c.vocab.notes,
	}
	for _, t := range c.f.tensors {
		r.Types[t.Type.String()]++
	}
	return r
}
