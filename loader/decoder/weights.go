package decoder

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// weightStore uploads layers from the checkpoint's memory map. Where all of them fit the budget they stay on the device;
// otherwise each is uploaded when its turn comes, the next one while the current one computes, and freed after.
type weightStore struct {
	be       *Backend
	ckpt     *loader.Checkpoint
	dtype    dtypes.DType
	turns    bool // small matrices are uploaded as [in, out], see turned
	streamed bool

	mu     sync.Mutex
	layers []*layerWeights
	final  []*tensors.Tensor
	mean   []float64           // of the output matrix's rows; nil until asked for
	ahead  map[int]chan loaded // streamed: uploads under way
}

type layerWeights struct{ tensors []*tensors.Tensor }

type loaded struct {
	w   *layerWeights
	err error
}

func newWeightStore(be *Backend, c *loader.Checkpoint, dtype dtypes.DType, budget int64) *weightStore {
	s := &weightStore{be: be, ckpt: c, dtype: dtype, layers: make([]*layerWeights, c.Spec.Layers), ahead: map[int]chan loaded{}}
	var need int64
	for l := range c.Spec.Layers {
		for _, p := range layerParams(&c.Spec, l) {
			need += p.Elements() * int64(dtype.Size())
		}
	}
	for _, p := range finalParams(&c.Spec) {
		need += p.Elements() * int64(dtype.Size())
	}
	s.streamed = budget > 0 && need > budget
	return s
}

// layerParams lists what a layer has, in the order in which the programs take it.
func layerParams(s *loader.Spec, l int) []loader.Param {
	layer := s.Params.Layer(l)
	return slices.DeleteFunc(layer.All(), func(p loader.Param) bool { return !p.Has() })
}

// finalParams lists what there is after the layers, in that order.
func finalParams(s *loader.Spec) []loader.Param {
	head := s.Params.Head
	if s.Tied {
		head = s.Params.Embed
	}
	return slices.DeleteFunc([]loader.Param{s.Params.FinalNorm, s.Params.FinalBias, head, s.Params.HeadBias},
		func(p loader.Param) bool { return !p.Has() })
}

// acquire returns layer l's weights as program arguments. release must follow.
func (s *weightStore) acquire(l int) ([]any, error) {
	w, err := s.layer(l)
	if err != nil {
		return nil, err
	}
	args := make([]any, len(w.tensors))
	for i, t := range w.tensors {
		args[i] = t
	}
	return args, nil
}

func (s *weightStore) layer(l int) (*layerWeights, error) {
	s.mu.Lock()
	w, pending := s.layers[l], s.ahead[l]
	delete(s.ahead, l)
	s.mu.Unlock()
	if w != nil {
		return w, nil
	}
	var err error
	if pending != nil {
		got := <-pending
		w, err = got.w, got.err
	} else {
		w, err = s.load(l)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.layers[l] = w
	s.mu.Unlock()
	if s.streamed && l+1 < len(s.layers) {
		s.prefetch(l + 1)
	}
	return w, nil
}

func (s *weightStore) prefetch(l int) {
	ch := make(chan loaded, 1)
	s.mu.Lock()
	if s.ahead[l] != nil { // left by a walk that stopped early
		s.mu.Unlock()
		return
	}
	s.ahead[l] = ch
	s.mu.Unlock()
	go func() {
		w, err := s.load(l)
		ch <- loaded{w, err}
	}()
}

// release gives a layer back; a streamed one is freed.
func (s *weightStore) release(l int) {
	if !s.streamed {
		return
	}
	s.mu.Lock()
	w := s.layers[l]
	s.layers[l] = nil
	s.mu.Unlock()
	if w != nil {
		free(w.tensors...)
	}
}

func (s *weightStore) load(l int) (*layerWeights, error) {
	w := &layerWeights{}
	layer := s.ckpt.Spec.Params.Layer(l)
	for _, p := range layerParams(&s.ckpt.Spec, l) {
		t, err := s.upload(p, len(p.Shape) == 2 && !isParam(p, layer.QNorm) && !isParam(p, layer.KNorm)) // those can have a row a head
		if err != nil {
			free(w.tensors...)
			return nil, err
		}
		w.tensors = append(w.tensors, t)
	}
	return w, nil
}

// isParam tells whether p, which the model has, is q.
func isParam(p, q loader.Param) bool { return q.Has() && p.Views[0] == q.Views[0] }

// finalLayer returns the parameters after the layers as program arguments; they always stay on the device.
func (s *weightStore) finalLayer() ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		var all []*tensors.Tensor
		for _, p := range finalParams(&s.ckpt.Spec) {
			t, err := s.upload(p, len(p.Shape) == 2)
			if err != nil {
				free(all...)
				return nil, err
			}
			all = append(all, t)
		}
		s.final = all
	}
	args := make([]any, len(s.final))
	for i, t := range s.final {
		args[i] = t
	}
	return args, nil
}

// upload copies one parameter to the device in the store's dtype, straight into the device's buffer where the backend shares
// memory with the host.
func (s *weightStore) upload(p loader.Param, matrix bool) (*tensors.Tensor, error) {
	if s.turns && matrix && isSmall(int(p.Elements())) {
		return s.turned(p)
	}
	stored, chunks, err := s.ckpt.Chunks(p)
	if err != nil {
		return nil, err
	}
	defer s.ckpt.Release(p)
	shape := shapes.Make(s.dtype, p.Shape...)
	same := (s.dtype == dtypes.Float32 && stored == safetensors.F32) || (s.dtype == dtypes.BFloat16 && stored == safetensors.BF16)
	if same && len(chunks) == 1 {
		return tensors.FromRaw(s.be.Backend, 0, shape, chunks[0])
	}
	if s.dtype == dtypes.Float32 && s.be.HasSharedBuffers() {
		t, err := tensors.FromShapeForBackend(s.be.Backend, 0, shape)
		if err != nil {
			return nil, err
		}
		var bad error
		err = tensors.MutableFlatData(t, func(dst []float32) { _, bad = s.ckpt.Float32s(p, dst) })
		if err == nil {
			err = bad
		}
		if err != nil {
			free(t)
			return nil, err
		}
		return t, nil
	}
	values, err := s.ckpt.Float32s(p, nil)
	if err != nil {
		return nil, err
	}
	return s.be.floats(values, s.dtype, p.Shape...)
}

// turned uploads a matrix [out, in] as [in, out]. Where both operands are contracted over their last axis the Go backend's AVX2 kernel
// for small products goes in and out of vector code once an element (compute v0.1.6): tiny models run twice as fast so.
func (s *weightStore) turned(p loader.Param) (*tensors.Tensor, error) {
	values, err := s.ckpt.Float32s(p, nil)
	if err != nil {
		return nil, err
	}
	defer s.ckpt.Release(p)
	out, in := p.Shape[0], p.Shape[1]
	t := make([]float32, len(values))
	for i := range out {
		for j := range in {
			t[j*out+i] = values[i*in+j]
		}
	}
	return s.be.floats(t, s.dtype, in, out)
}

// embed looks token ids up on the host, from the memory map: a few rows of a matrix that need not be on the device.
// The result is [len(ids), hidden] float32 values.
func (s *weightStore) embed(ids []int32) ([]float32, error) {
	p := s.ckpt.Spec.Params.Embed
	stored, chunks, err := s.ckpt.Chunks(p)
	if err != nil {
		return nil, err
	}
	if len(chunks) != 1 {
		return nil, fmt.Errorf("embedding: got %d pieces, want one", len(chunks))
	}
	vocab, d := p.Shape[0], p.Shape[1]
	raw, scale := chunks[0], s.embedScale()
	width := len(raw) / vocab
	out := make([]float32, len(ids)*d)
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("token id %d: the vocabulary has %d tokens", id, vocab)
		}
		row := out[i*d : (i+1)*d]
		if err := safetensors.DecodeFloat32(row, raw[int(id)*width:(int(id)+1)*width], stored); err != nil {
			return nil, fmt.Errorf("embedding: %w", err)
		}
		if s.dtype == dtypes.BFloat16 && stored == safetensors.F32 { // transformers rounds the matrix before it scales a row
			for k, x := range row {
				row[k] = roundBFloat16(x)
			}
		}
		for k := range row {
			row[k] *= scale
		}
	}
	return out, nil
}

// embedScale is the factor on the embedding as the family rounds it.
func (s *weightStore) embedScale() float32 {
	scale := float32(s.ckpt.Spec.EmbedScale)
	if s.ckpt.Spec.EmbedRound && s.dtype == dtypes.BFloat16 {
		scale = roundBFloat16(scale)
	}
	return scale
}

func (s *weightStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l, ch := range s.ahead {
		if got := <-ch; got.w != nil {
			free(got.w.tensors...)
		}
		delete(s.ahead, l)
	}
	for l, w := range s.layers {
		if w != nil {
			free(w.tensors...)
		}
		s.layers[l] = nil
	}
	free(s.final...)
	s.final = nil
}
