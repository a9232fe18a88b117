package decoder

import (
	"fmt"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// Options says how a model is run. The zero value is the checkpoint's dtype, transformers' angles, all weights resident.
type Options struct {
	DType  string         // auto, float32, bfloat16
	Angles rope.Precision // arithmetic of the rotary angles
	Memory int64          // bytes that the weights may take on the device; 0 = no limit; below the need, layers are streamed
}

// Model runs one checkpoint on one backend. It is safe for one caller at a time.
type Model struct {
	Spec *loader.Spec

	be      *Backend
	cfg     blockConfig
	geo     geometry
	weights *weightStore
	angles  rope.Precision
	workers int

	mu       sync.Mutex
	programs map[string]*graph.Exec
	tables   map[positionKey]*positionTable
	turns    uint64               // of tables, for the oldest to go
	identity map[int]*editTensors // by batch size
	windows  map[int]*tensors.Tensor

	prefillRows, tailRows int64 // rows x layers: what Work reports
}

// New prepares a checkpoint for running on be. Weights are uploaded when they are first needed.
func New(be *Backend, c *loader.Checkpoint, o Options) (*Model, error) {
	s := &c.Spec
	name := o.DType
	if name == "" || name == "auto" {
		name = s.DType
	}
	dtype, err := parseDType(name)
	if err != nil {
		return nil, err
	}
	geo, err := newGeometry(s)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Spec: s, be: be, angles: o.Angles, workers: 1,
		cfg: newBlockConfig(s, 2*geo.planes, dtype), geo: geo,
		programs: map[string]*graph.Exec{}, tables: map[positionKey]*positionTable{}, identity: map[int]*editTensors{},
		windows: map[int]*tensors.Tensor{},
	}
	if be.Kind == KindGo {
		m.cfg.widen, m.cfg.turns = dtype != dtypes.Float32, true
		m.workers = 2 // half of a forward is single-threaded there: two sequences at once run 1.7 times as fast
	}
	m.weights = newWeightStore(be, c, dtype, o.Memory)
	m.weights.turns = m.cfg.turns
	return m, nil
}

func parseDType(name string) (dtypes.DType, error) {
	switch name {
	case "float32":
		return dtypes.Float32, nil
	case "bfloat16":
		return dtypes.BFloat16, nil
	case "float16":
		return dtypes.InvalidDType, &NotSupportedError{What: "dtype float16", Have: "float32, bfloat16; use --dtype float32 for a float16 checkpoint"}
	}
	return dtypes.InvalidDType, fmt.Errorf("dtype %q: want auto, float32 or bfloat16", name)
}

// DType is the dtype of weights and activations, spelled as HF does.
func (m *Model) DType() string {
	if m.cfg.dtype == dtypes.BFloat16 {
		return "bfloat16"
	}
	return "float32"
}

// Backend is the backend the model runs on.
func (m *Model) Backend() *Backend { return m.be }

// Streamed tells whether layers are uploaded anew for each walk because the weights do not fit the memory budget.
func (m *Model) Streamed() bool { return m.weights.streamed }

// Work counts the rows computed so far: those of whole sequences and those over a kept cache. Padding to a bucket is not counted;
// the copies that fill a batch are.
type Work struct {
	PrefillLayerRows int64 `json:"prefill_layer_rows"` // rows x layers
	CacheLayerRows   int64 `json:"cache_layer_rows"`
}

// Work returns the counters.
func (m *Model) Work() Work {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Work{m.prefillRows, m.tailRows}
}

// Close frees what the model holds on the device.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weights.close()
	for _, t := range m.tables {
		free(t.cos, t.sin)
	}
	for _, e := range m.identity {
		e.free()
	}
	for _, w := range m.windows {
		free(w)
	}
	for _, p := range m.programs {
		p.Finalize()
	}
	m.programs, m.tables = map[string]*graph.Exec{}, map[positionKey]*positionTable{}
	m.identity, m.windows = map[int]*editTensors{}, map[int]*tensors.Tensor{}
	return nil
}

// program returns the named program, built on first use; the executor compiles it once for each set of argument shapes.
func (m *Model) program(name string, build func([]*graph.Node) []*graph.Node) (*graph.Exec, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.programs[name]; e != nil {
		return e, nil
	}
	e, err := graph.NewExec(m.be.Backend, build)
	if err != nil {
		return nil, err
	}
	e = e.WithName(name).SetMaxCache(-1)
	m.programs[name] = e
	return e, nil
}
