package decoder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
)

// The tests share one backend of each kind and one model for each of these checkpoints, so that a shape is compiled once.
var checkpoints = map[string]loadertest.Options{
	"float32":  {Layers: 3, KVHeads: 2, Intermediate: 16, Seed: 7},
	"bfloat16": {Layers: 3, KVHeads: 2, Intermediate: 16, Seed: 7, BFloat16: true},
	"small":    {Layers: 2, Heads: 2, HeadDim: 8, Hidden: 16, Intermediate: 16, Seed: 7}, // for many walks
}

type lab struct {
	dir string

	mu     sync.Mutex
	opened map[string]func() (*Backend, error)
	ckpts  map[string]*loader.Checkpoint
	models map[string]*Model
}

var shared = &lab{
	opened: map[string]func() (*Backend, error){
		"go":  sync.OnceValues(func() (*Backend, error) { return OpenBackend(BackendOptions{Device: "go"}) }),
		"cpu": sync.OnceValues(func() (*Backend, error) { return OpenBackend(BackendOptions{Device: "cpu"}) }),
	},
	ckpts: map[string]*loader.Checkpoint{}, models: map[string]*Model{},
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "decoder-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.dir = dir
	code := m.Run()
	for _, m := range shared.models {
		if err := m.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	for _, c := range shared.ckpts {
		c.Close()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// onBackends runs f on the Go backend and on XLA's CPU plugin. A missing plugin is said aloud; one that does not open fails.
func onBackends(t *testing.T, f func(t *testing.T, be *Backend)) {
	for _, name := range []string{"go", "cpu"} {
		t.Run(name, func(t *testing.T) { f(t, backend(t, name)) })
	}
}

// sameShapeBits skips the bits law where it is known not to hold: the Go backend's plain kernels, built without GOEXPERIMENT=simd, sum in
// an order that depends on the batch (up to 2.1e-6 in a residual). The command warns of such a build.
func sameShapeBits(t *testing.T, be *Backend) {
	t.Helper()
	if be.Kind == KindGo && !be.SIMD {
		t.Skip("NOT RUN: the Go backend is built without GOEXPERIMENT=simd")
	}
}

// slow tells whether every combination is wanted. Otherwise each law is held on both backends over a part of them, chosen to need few
// program shapes on XLA, where compiling them is most of the time.
func slow() bool { return os.Getenv("HEADSCOPE_SLOW") == "1" }

func backend(t testing.TB, name string) *Backend {
	t.Helper()
	if name == "cpu" {
		_, err := FindPlugin(KindCPU, "")
		if !haveXLA {
			err = errors.New("built without XLA")
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "NOT RUN on cpu: %s: %v\n", t.Name(), err)
			t.Skipf("NOT RUN on cpu: %v", err)
		}
	}
	be, err := shared.opened[name]()
	if err != nil {
		t.Fatal(err)
	}
	return be
}

func checkpointOptions(t testing.TB, name string) loadertest.Options {
	t.Helper()
	if o, ok := checkpoints[name]; ok {
		return o
	}
	for _, v := range loadertest.Variants() {
		if v.Name == name {
			v.Options.Intermediate = 16
			return v.Options
		}
	}
	t.Fatalf("no checkpoint %s", name)
	return loadertest.Options{}
}

// ckpt is the shared checkpoint of that name, one of checkpoints or of loadertest's variants of the families.
func ckpt(t testing.TB, name string) *loader.Checkpoint {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if c := shared.ckpts[name]; c != nil {
		return c
	}
	dir := filepath.Join(shared.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := loadertest.Write(dir, checkpointOptions(t, name)); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	shared.ckpts[name] = c
	return c
}

// model is the shared model of that checkpoint, in the checkpoint's dtype.
func model(t testing.TB, be *Backend, name string) *Model {
	t.Helper()
	c := ckpt(t, name)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	key := string(be.Kind) + name
	if m := shared.models[key]; m != nil {
		return m
	}
	m, err := New(be, c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared.models[key] = m
	return m
}

// sibling runs another checkpoint of m's shape, or the same one under other options, with m's compiled programs.
func sibling(t testing.TB, m *Model, c *loader.Checkpoint, o Options) *Model {
	t.Helper()
	s, err := New(m.be, c, o)
	if err != nil {
		t.Fatal(err)
	}
	same, a, b := s.cfg, *s.Spec, *m.Spec
	same.spec = m.cfg.spec
	a.Params, b.Params, a.DType = loader.Params{}, loader.Params{}, b.DType
	if same != m.cfg || !reflect.DeepEqual(a, b) {
		t.Fatalf("got a block of %+v, %+v, want %+v, %+v", s.cfg, a, m.cfg, b)
	}
	own := s.programs
	s.programs = m.programs
	t.Cleanup(func() {
		s.programs = own
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func reference(t testing.TB, c *loader.Checkpoint) *loadertest.Reference {
	t.Helper()
	r, err := loadertest.NewReference(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tokens draws n token ids, none of them the end token 2.
func tokens(stream uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(2024, stream))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = 3 + rng.Int32N(61)
	}
	return ids
}

// edits parses, for conditions written as they are on the command line.
func edits(t testing.TB, forms ...string) []Edit {
	t.Helper()
	var out []Edit
	for _, f := range forms {
		e, err := ParseEdit(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// ask collects the replies of Ask as [prompt][condition].
func ask(t testing.TB, m *Model, prompts []*Prompt, conds []Condition, o AskOptions) [][]*Reply {
	t.Helper()
	out := make([][]*Reply, len(prompts))
	for i := range out {
		out[i] = make([]*Reply, len(conds))
	}
	err := m.Ask(context.Background(), prompts, conds, o, func(p, c int, r *Reply) error {
		if out[p][c] != nil {
			t.Errorf("prompt %d, condition %d: two replies", p, c)
		}
		out[p][c] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for p := range out {
		if i := slices.Index(out[p], nil); i >= 0 {
			t.Fatalf("prompt %d, condition %d: no reply", p, i)
		}
	}
	return out
}

func trace(t testing.TB, m *Model, p *Prompt, es []Edit, o TraceOptions) *Trace {
	t.Helper()
	tr, err := m.Trace(context.Background(), p, es, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// dtypesOn are the shared checkpoints to compare; XLA has its turn with the second dtype's row programs among the slow tests.
func dtypesOn(be *Backend) []string {
	if be.Kind == KindGo || slow() {
		return []string{"float32", "bfloat16"}
	}
	return []string{"float32"}
}

// smallBatch is a prefill batch for prompts of different lengths: on XLA one that other tests compile too, on the Go backend, which
// computes the copies that fill it, no larger than it has to be.
func smallBatch(be *Backend) int {
	if be.Kind == KindGo {
		return 2
	}
	return 4
}

// rowRange lists the integers from lo to hi-1.
func rowRange(lo, hi int) []int {
	var out []int
	for i := lo; i < hi; i++ {
		out = append(out, i)
	}
	return out
}

// summary is what a row of logits says: natural logarithms of the probabilities, the largest entry and its lead.
type summary struct {
	logProb []float64
	argmax  int32
	gap     float64
	scale   float64
}

func summarise[F float32 | float64](logits []F) summary {
	best, second, scale := math.Inf(-1), math.Inf(-1), 0.0
	s := summary{}
	for i, x := range logits {
		v := float64(x)
		scale = max(scale, math.Abs(v))
		if v > best {
			best, second, s.argmax = v, best, int32(i)
		} else {
			second = max(second, v)
		}
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - best)
	}
	for _, x := range logits {
		s.logProb = append(s.logProb, float64(x)-best-math.Log(sum))
	}
	s.gap, s.scale = best-second, scale
	return s
}

// largest returns the largest difference between two slices and the largest magnitude in the second; a NaN counts as infinite.
func largest[F float32 | float64](a, b []F) (difference, scale float64) {
	if len(a) != len(b) {
		return math.Inf(1), 0
	}
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		difference, scale = max(difference, d), max(scale, math.Abs(float64(b[i])))
	}
	return difference, scale
}
