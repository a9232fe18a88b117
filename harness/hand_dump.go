package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// What Dump gives, in the order in which it gives them. H is heads of the choice, KV the key/value heads that these read, R the chosen
// rows, T all tokens, D the head's dimensions.
const (
	DumpQ         = "q"         // [R, H, D], after bias and edits, before rotation
	DumpQRot      = "q_rot"     // [R, H, D], after rotation
	DumpK         = "k"         // [T, KV, D], after bias, before rotation
	DumpKRot      = "k_rot"     // [T, KV, D], after rotation
	DumpV         = "v"         // [T, KV, D]
	DumpAttention = "attention" // [H, R, T], weights after the softmax
	DumpZ         = "z"         // [R, H, D], head outputs after edits: what the output projection reads
	DumpResidual  = "residual"  // [R, hidden], after the layer, before the final norm
	DumpLogits    = "logits"    // [R, vocab]
)

// DumpNames lists what Dump gives.
func DumpNames() []string {
	return []string{DumpQ, DumpQRot, DumpK, DumpKRot, DumpV, DumpAttention, DumpZ, DumpResidual, DumpLogits}
}

// DumpLimit is the size from which on a dump has to be asked for twice.
const DumpLimit = 1 << 30

// traceBytes is how much of a pass is kept on the host at a time; what takes more is computed in several passes.
const traceBytes = 1 << 30

// DumpRequest says which arrays of one forward pass are wanted.
type DumpRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Passage    *Passage
	Edits      []decoder.Edit
	What       []string // of DumpNames, in any order
	Choice     *HeadChoice
	Rows       []int // increasing
	Any        bool  // of any size; else DumpLimit

	passBytes int64 // what a pass may keep on the host; 0 = traceBytes
}

// Array is a named array, row-major.
type Array struct {
	Name  string   `json:"name"` // layer05/z
	Axes  []string `json:"axes"` // row, key, head, kv_head, dim, hidden, vocab, token
	Shape []int    `json:"shape"`
	DType string   `json:"dtype"` // float32 or int32

	Floats []float32 `json:"-"`
	Ints   []int32   `json:"-"`
}

// Dumped is what a dump's file holds.
type Dumped struct {
	Arrays []Array
	Meta   DumpMeta
	Passes int // forward passes that it took
}

// Dump runs the passage and returns the arrays asked for.
func Dump(ctx context.Context, r *DumpRequest) (*Dumped, error) {
	what, err := dumpOrder(r.What)
	if err != nil {
		return nil, err
	}
	if err := r.Passage.CheckEdits(&r.Checkpoint.Spec, r.Edits); err != nil {
		return nil, err
	}
	d := &dumper{r: r, what: what, at: map[string]int{}}
	d.layout()
	if err := d.checkSize(); err != nil {
		return nil, err
	}
	for i := range d.arrays {
		if a := &d.arrays[i]; a.DType == "float32" {
			a.Floats = make([]float32, product(a.Shape...))
		}
	}
	if r.passBytes == 0 {
		r.passBytes = traceBytes
	}
	passes := d.passes()
	for i, p := range passes {
		if err := d.run(ctx, i, p); err != nil {
			return nil, err
		}
	}
	meta, err := r.meta(ctx, d.arrays)
	if err != nil {
		return nil, err
	}
	return &Dumped{d.arrays, *meta, len(passes)}, nil
}

// dumpOrder sorts the names and refuses unknown ones.
func dumpOrder(what []string) ([]string, error) {
	names := DumpNames()
	for _, w := range what {
		if !slices.Contains(names, w) && w != "all" {
			return nil, usagef("choose from "+strings.Join(names, ", ")+", or all", "there is no array %q", w)
		}
	}
	if slices.Contains(what, "all") {
		return names, nil
	}
	var out []string
	for _, n := range names {
		if slices.Contains(what, n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil, usagef("choose from "+strings.Join(names, ", ")+", or all", "nothing to dump")
	}
	return out, nil
}

// dumper is a dump under way.
type dumper struct {
	r      *DumpRequest
	what   []string
	arrays []Array
	at     map[string]int // by name
}

func (d *dumper) wants(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(d.what, n) })
}

// layerName is the name of a layer's array: two digits, three from a hundred layers on.
func (d *dumper) layerName(layer int, what string) string {
	width := max(2, len(fmt.Sprint(d.r.Checkpoint.Spec.Layers-1)))
	return fmt.Sprintf("layer%0*d/%s", width, layer, what)
}

func (d *dumper) add(a Array) {
	d.at[a.Name] = len(d.arrays)
	d.arrays = append(d.arrays, a)
}

func (d *dumper) addInts(name, axis string, values []int) {
	a := Array{Name: name, Axes: []string{axis}, Shape: []int{len(values)}, DType: "int32"}
	for _, v := range values {
		a.Ints = append(a.Ints, int32(v))
	}
	d.add(a)
}

// layout lists the arrays with their shapes; nothing is computed.
func (d *dumper) layout() {
	s, p, rows := &d.r.Checkpoint.Spec, d.r.Passage, d.r.Rows
	d.add(Array{Name: "tokens", Axes: []string{"token"}, Shape: []int{p.T()}, DType: "int32", Ints: slices.Concat(p.IDs, p.Answer)})
	d.addInts("rows", "row", rows)
	for _, l := range d.r.Choice.Layers {
		query := d.r.Choice.Heads[l]
		kv := kvHeads(s, query)
		if d.wants(DumpQ, DumpQRot, DumpAttention, DumpZ) {
			d.addInts(d.layerName(l, "heads"), "head", query)
		}
		if d.wants(DumpK, DumpKRot, DumpV) {
			d.addInts(d.layerName(l, "kv_heads"), "kv_head", kv)
		}
		for _, w := range d.what {
			a := Array{Name: d.layerName(l, w), DType: "float32"}
			switch w {
			case DumpQ, DumpQRot, DumpZ:
				a.Axes, a.Shape = []string{"row", "head", "dim"}, []int{len(rows), len(query), s.HeadDim}
			case DumpK, DumpKRot, DumpV:
				a.Axes, a.Shape = []string{"token", "kv_head", "dim"}, []int{p.T(), len(kv), s.HeadDim}
			case DumpAttention:
				a.Axes, a.Shape = []string{"head", "row", "token"}, []int{len(query), len(rows), p.T()}
			case DumpResidual:
				a.Axes, a.Shape = []string{"row", "hidden"}, []int{len(rows), s.Hidden}
			default:
				continue
			}
			d.add(a)
		}
	}
	if d.wants(DumpLogits) {
		d.add(Array{Name: DumpLogits, Axes: []string{"row", "vocab"}, Shape: []int{len(rows), s.Vocab}, DType: "float32"})
	}
}

// checkSize refuses what is larger than anyone means, and says what makes it so.
func (d *dumper) checkSize() error {
	total, by := int64(0), map[string]int64{}
	for _, a := range d.arrays {
		n := product(append(slices.Clone(a.Shape), 4)...)
		kind := a.Name[strings.LastIndexByte(a.Name, '/')+1:]
		total, by[kind] = saturate(total, n), saturate(by[kind], n)
	}
	if d.r.Any || total <= DumpLimit {
		return nil
	}
	most := d.what[0]
	for _, w := range d.what {
		if by[w] > by[most] {
			most = w
		}
	}
	return usagef("narrow it with --what, --layers, --heads or --rows; --yes writes it all the same",
		"the dump would take %s, %s of it %s (%d layers, %d rows of %d tokens)",
		FormatBytes(total), FormatBytes(by[most]), most, len(d.r.Choice.Layers), len(d.r.Rows), d.r.Passage.T())
}

// saturate adds sizes and stops at the largest int.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// dumpPass is what one forward pass returns.
type dumpPass struct {
	layers []int // whose queries and so on are kept
	rows   []int // whose attention is kept, in every layer
	from   int   // number of the first of these rows
	n      int   // how many of them are wanted; the rest fills the shape
}

// passes splits the work so that what a pass returns fits the host's memory: all layers and rows of a short text in one.
func (d *dumper) passes() []dumpPass {
	s, t := &d.r.Checkpoint.Spec, d.r.Passage.T()
	var out []dumpPass
	at := func(i int) *dumpPass {
		if i == len(out) {
			out = append(out, dumpPass{})
		}
		return &out[i]
	}
	if d.wants(DumpQ, DumpQRot, DumpK, DumpKRot, DumpV, DumpZ) || d.wants(DumpResidual) && len(d.r.Rows) > 1 {
		layer := product(4, t+128, 3*(s.Heads+s.KVHeads)*s.HeadDim+s.Hidden)
		i := 0
		for some := range slices.Chunk(d.r.Choice.Layers, int(max(1, d.r.passBytes/layer))) {
			at(i).layers = some
			i++
		}
	}
	if d.wants(DumpAttention) {
		i := 0
		for _, p := range attentionPasses(s, t, d.r.Rows, d.r.passBytes) {
			to := at(i)
			to.rows, to.from, to.n = p.rows, p.from, p.n
			i++
		}
	}
	at(0) // logits alone take one too
	return out
}

// attentionPasses splits rows into passes of one shape whose weights in all layers and heads fit the host's memory.
func attentionPasses(s *loader.Spec, t int, rows []int, bytes int64) []dumpPass {
	size := min(len(rows), int(max(1, bytes/product(4, s.Layers, s.Heads, t+128))))
	var out []dumpPass
	for from := 0; from < len(rows); from += size {
		p := dumpPass{from: from, n: min(size, len(rows)-from)}
		for i := range size {
			p.rows = append(p.rows, rows[from+min(i, p.n-1)])
		}
		out = append(out, p)
	}
	return out
}

func (d *dumper) run(ctx context.Context, i int, p dumpPass) error {
	o := decoder.TraceOptions{Attention: p.rows, QK: p.layers, Hidden: -1}
	if i == 0 && d.wants(DumpLogits) {
		o.Logits = d.r.Rows
	}
	one := len(d.r.Rows) == 1 && d.wants(DumpResidual)
	if i == 0 && one {
		o.Hidden = d.r.Rows[0]
	}
	tr, err := d.r.Model.Trace(ctx, d.r.Passage.ask(), d.r.Edits, o)
	if err != nil {
		return err
	}
	for _, l := range d.r.Choice.Layers {
		if x, ok := tr.QK[l]; ok {
			d.takeLayer(l, &x)
		}
		if p.n > 0 {
			d.takeAttention(l, tr.Attention[l], p)
		}
		if o.Hidden >= 0 {
			copy(d.data(l, DumpResidual), tr.Hidden[l])
		}
	}
	if o.Logits != nil {
		to := d.arrays[d.at[DumpLogits]].Floats
		for _, row := range tr.Logits {
			to = to[copy(to, row):]
		}
	}
	return nil
}

// data is where an array of a layer goes; nil where it is not wanted.
func (d *dumper) data(layer int, what string) []float32 {
	if i, ok := d.at[d.layerName(layer, what)]; ok {
		return d.arrays[i].Floats
	}
	return nil
}

// takeLayer copies the chosen heads and rows of one layer.
func (d *dumper) takeLayer(l int, x *decoder.QueryKey) {
	s, t := &d.r.Checkpoint.Spec, d.r.Passage.T()
	n, query := s.HeadDim, d.r.Choice.Heads[l]
	for what, from := range map[string][]float32{DumpQ: x.QPre, DumpQRot: x.QRot, DumpZ: x.Z} { // [T, heads, D]
		to := d.data(l, what)
		if to == nil {
			continue
		}
		for _, row := range d.r.Rows {
			for _, h := range query {
				to = to[copy(to, from[(row*s.Heads+h)*n:][:n]):]
			}
		}
	}
	for what, from := range map[string][]float32{DumpK: x.KPre, DumpKRot: x.KRot, DumpV: x.V} { // [KV, T, D]
		to := d.data(l, what)
		if to == nil {
			continue
		}
		for row := range t {
			for _, h := range kvHeads(s, query) {
				to = to[copy(to, from[(h*t+row)*n:][:n]):]
			}
		}
	}
	if to := d.data(l, DumpResidual); to != nil && len(d.r.Rows) > 1 {
		for _, row := range d.r.Rows {
			to = to[copy(to, x.Residual[row*s.Hidden:][:s.Hidden]):]
		}
	}
}

// takeAttention copies the chosen heads of one layer's weights, [heads, rows of the pass, T].
func (d *dumper) takeAttention(l int, from []float32, p dumpPass) {
	t, all, to := d.r.Passage.T(), len(d.r.Rows), d.data(l, DumpAttention)
	for i, h := range d.r.Choice.Heads[l] {
		copy(to[(i*all+p.from)*t:][:p.n*t], from[h*len(p.rows)*t:])
	}
}
