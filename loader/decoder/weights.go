package decoder

import (
	"fmt"
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
	streamed bool

	mu     sync.Mutex
	layers []*layerWeights
	final  *finalWeights
	ahead  map[int]chan loaded // streamed: uploads under way
}

type layerWeights struct{ tensors []*tensors.Tensor }

type finalWeights struct{ norm, head *tensors.Tensor }

type loaded struct {
	w   *layerWeights
	err error
}

func newWeightStore(be *Backend, c *loader.Checkpoint, dtype dtypes.DType, budget int64) *weightStore {
	s := &weightStore{be: be, ckpt: c, dtype: dtype, layers: make([]*layerWeights, c.Spec.Layers), ahead: map[int]chan loaded{}}
	var need int64
	for _, name := range c.Weights.Names() {
		if info, ok := c.Weights.Info(name); ok {
			need += int64(info.Elements()) * int64(dtype.Size())
		}
	}
	s.streamed = budget > 0 && need > budget
	return s
}

// weightNames lists a layer's tensors in the order in which the programs take them.
func weightNames(n loader.LayerNames) []string {
	all := []string{n.InputNorm, n.Q, n.QBias, n.K, n.KBias, n.V, n.VBias, n.O, n.OBias, n.PostNorm,
		n.Gate, n.GateBias, n.Up, n.UpBias, n.Down, n.DownBias}
	out := all[:0]
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
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
	for _, name := range weightNames(s.ckpt.Spec.Names.Layer(l)) {
		t, err := s.upload(name)
		if err != nil {
			free(w.tensors...)
			return nil, err
		}
		w.tensors = append(w.tensors, t)
	}
	return w, nil
}

// finalLayer returns the final norm and the output matrix; they always stay on the device.
func (s *weightStore) finalLayer() (*finalWeights, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return s.final, nil
	}
	n := s.ckpt.Spec.Names
	head := n.Head
	if s.ckpt.Spec.Tied {
		head = n.Embed
	}
	norm, err := s.upload(n.FinalNorm)
	if err != nil {
		return nil, err
	}
	h, err := s.upload(head)
	if err != nil {
		free(norm)
		return nil, err
	}
	s.final = &finalWeights{norm, h}
	return s.final, nil
}

// upload copies one tensor to the device in the store's dtype, straight into the device's buffer where the backend shares
// memory with the host.
func (s *weightStore) upload(name string) (*tensors.Tensor, error) {
	info, raw, err := s.mapped(name)
	if err != nil {
		return nil, err
	}
	defer s.ckpt.Weights.Release(name)
	shape := shapes.Make(s.dtype, info.Shape...)
	same := (s.dtype == dtypes.Float32 && info.DType == safetensors.F32) || (s.dtype == dtypes.BFloat16 && info.DType == safetensors.BF16)
	if same {
		return tensors.FromRaw(s.be.Backend, 0, shape, raw)
	}
	if s.dtype == dtypes.Float32 && s.be.HasSharedBuffers() {
		t, err := tensors.FromShapeForBackend(s.be.Backend, 0, shape)
		if err != nil {
			return nil, err
		}
		var bad error
		err = tensors.MutableFlatData(t, func(dst []float32) { bad = safetensors.DecodeFloat32(dst, raw, info.DType) })
		if err == nil {
			err = bad
		}
		if err != nil {
			free(t)
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return t, nil
	}
	values, err := s.ckpt.Weights.Float32s(name, nil)
	if err != nil {
		return nil, err
	}
	return s.be.floats(values, s.dtype, info.Shape...)
}

// mapped returns a tensor's header and its bytes in the memory map.
func (s *weightStore) mapped(name string) (safetensors.Info, []byte, error) {
	info, ok := s.ckpt.Weights.Info(name)
	if !ok {
		return info, nil, fmt.Errorf("%s: tensor %s is missing", s.ckpt.Dir, name)
	}
	raw, err := s.ckpt.Weights.Bytes(name)
	return info, raw, err
}

// embed looks token ids up on the host, from the memory map: a few rows of a matrix that need not be on the device.
// The result is [len(ids), hidden] float32 values.
func (s *weightStore) embed(ids []int32) ([]float32, error) {
	name := s.ckpt.Spec.Names.Embed
	info, raw, err := s.mapped(name)
	if err != nil {
		return nil, err
	}
	width := len(raw) / info.Shape[0]
	d := info.Shape[1]
	out := make([]float32, len(ids)*d)
	for i, id := range ids {
		if id < 0 || int(id) >= info.Shape[0] {
			return nil, fmt.Errorf("token id %d: the vocabulary has %d tokens", id, info.Shape[0])
		}
		if err := safetensors.DecodeFloat32(out[i*d:(i+1)*d], raw[int(id)*width:(int(id)+1)*width], info.DType); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
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
	if s.final != nil {
		free(s.final.norm, s.final.head)
		s.final = nil
	}
}
