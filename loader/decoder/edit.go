package decoder

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/headscope/headscope/loader/rope"
)

// Op is what an edit does to its heads.
type Op string

// The operations of the base program: they change runtime inputs, never the graph.
const (
	OpZero        Op = "zero"         // the head's slice of the output projection's input is 0
	OpScale       Op = "scale"        // that slice times Value
	OpUniform     Op = "uniform"      // attention uniform over the visible keys (query 0)
	OpZeroPlanes  Op = "zero_planes"  // the query's Planes are 0, after bias, before rotation; keys untouched
	OpScalePlanes Op = "scale_planes" // those planes times Value
	OpTemperature Op = "temperature"  // attention scores divided by Value
)

// The operations that need more inputs than the base program has. Layers that none of them edits keep the base program.
const (
	OpFreeze    Op = "freeze"    // Planes do not turn: frequency 0 in the query and in the key as this head sees it
	OpSwap      Op = "swap"      // query, and key as this head sees it, turn by another table; the factor on cosine and sine stays, save with yarn
	OpZeroDims  Op = "zero_dims" // the query's single Dims are 0, after bias, before rotation: not both members of a plane; keys untouched
	OpLegacy    Op = "legacy"    // Planes are 0 in the outputs of q_proj and, for the whole KV group, k_proj: the published form
	OpOwnMean   Op = "own_mean"  // the head's slice is its mean over the prompt's rows in this very run
	OpMean      Op = "mean"      // the head's slice is its mean over other prompts' rows of the same class, Prompt.Means
	OpPatch     Op = "patch"     // the head's slice is that of a plain run on Prompt.Donor, rows aligned at the end; prompt rows only
	OpPath      Op = "path"      // the head's slice is what it would be if Source's donor output had reached its Input alone; prompt rows only
	OpStreaming Op = "streaming" // the head sees the first Sink keys and the last Recent ones, its own included (DuoAttention)

	OpLengthScale Op = "length_scale" // scores at a row with n keys up to it times max(0, 1 + Value ln(n/Length)) where n > Length
	OpKeepSpread  Op = "keep_spread"  // scores at a row rescaled to the spread that they have without the edits of the query's planes
)

var (
	baseOps    = []Op{OpZero, OpScale, OpUniform, OpZeroPlanes, OpScalePlanes, OpTemperature}
	variantOps = []Op{OpFreeze, OpSwap, OpZeroDims, OpLegacy, OpOwnMean, OpMean, OpPatch, OpPath, OpStreaming, OpLengthScale, OpKeepSpread}
)

// Edit is one intervention: what, where and at which rows. It is plain data: it prints, parses, hashes and stores.
type Edit struct {
	Op     Op      `json:"op"`
	Heads  []Head  `json:"heads"`
	Planes []int   `json:"planes,omitempty"` // plane numbers of the checkpoint's pairing, 0 = fastest ladder step
	Band   string  `json:"band,omitempty"`   // planes by speed, such as "slow16", resolved against the table: see rope.ParseBand
	Dims   []int   `json:"dims,omitempty"`   // of zero_dims: dimensions of a head, from 0
	Value  float64 `json:"value,omitempty"`

	Table   string    `json:"table,omitempty"`    // of a swap, see rope.ParseRule
	InvFreq []float64 `json:"inv_freq,omitempty"` // or the frequencies themselves, radians a token by plane; Table is then a name for them
	Sink    int       `json:"sink,omitempty"`     // of streaming
	Recent  int       `json:"recent,omitempty"`
	Length  int       `json:"length,omitempty"` // of length_scale: rows with no more keys than this keep their scores
	Source  *Head     `json:"source,omitempty"` // of path: the head, in an earlier layer, that has its donor output at the rows of Scope
	Input   string    `json:"input,omitempty"`  // what of the head is computed from a residual stream with that output: q, k or v

	Scope Scope `json:"scope"`
}

// FirstRow is the first row that is other than the unmodified model's under the edit, or that it needs of the edited run: the mean of
// own_mean is over all of them.
func (e Edit) FirstRow(t, q0 int) (int, error) {
	rows, err := e.Scope.Resolve(t, q0)
	if e.Op == OpOwnMean {
		return 0, err
	}
	return rows.Lo, err
}

// String prints the edit in the form ParseEdit reads.
func (e Edit) String() string {
	var b strings.Builder
	b.WriteString(string(e.Op))
	switch {
	case e.Op == OpLengthScale:
		fmt.Fprintf(&b, "=%s+%d", strconv.FormatFloat(e.Value, 'g', -1, 64), e.Length)
	case e.takesValue():
		fmt.Fprintf(&b, "=%s", strconv.FormatFloat(e.Value, 'g', -1, 64))
	case e.Op == OpSwap:
		b.WriteString("=" + e.Table)
	case e.Op == OpStreaming:
		fmt.Fprintf(&b, "=%d+%d", e.Sink, e.Recent)
	case e.Op == OpPath && e.Source != nil:
		fmt.Fprintf(&b, "=%s.%s", *e.Source, e.Input)
	}
	b.WriteByte(':')
	for i, h := range e.Heads {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(h.String())
	}
	if e.Band != "" {
		b.WriteString(":" + e.Band)
	} else if list := slices.Concat(e.Planes, e.Dims); len(list) > 0 { // an edit has one or the other
		s := make([]string, len(list))
		for i, p := range list {
			s[i] = strconv.Itoa(p)
		}
		b.WriteString(":" + strings.Join(s, "+"))
	}
	return b.String() + "@" + string(e.Scope)
}

func (e Edit) takesValue() bool {
	return e.Op == OpScale || e.Op == OpScalePlanes || e.Op == OpTemperature || e.Op == OpLengthScale
}

func (e Edit) takesPlanes() bool {
	return e.Op == OpZeroPlanes || e.Op == OpScalePlanes || e.Op == OpFreeze || e.Op == OpLegacy
}

// ParseEdit reads "op[=value]:heads[:planes][@scope]", for example "zero:L18H6,L20H3@question", "scale=0.5:L3H1" or
// "zero_planes:L18H6:slow16@all". Heads are a comma list or whatever file readFile understands; readFile may be nil.
// Planes are a band of rope.ParseBand, such as "slow16" (16 dims = 8 planes), or numbers joined by "+"; so are the dims of zero_dims. The
// table of a swap is a rule of rope.ParseRule or, where readFile is there, a rope.File, whose path ends in ".json". The scope defaults to all.
func ParseEdit(s string, readFile func(path string) ([]Head, error)) (Edit, error) {
	body, scope, found := cutLast(s, "@")
	e := Edit{Scope: ScopeAll}
	if found {
		e.Scope = Scope(scope)
	}
	parts := strings.SplitN(body, ":", 2)
	op, value, hasValue := strings.Cut(parts[0], "=")
	e.Op = Op(strings.ReplaceAll(op, "-", "_"))
	if err := e.Op.check(); err != nil {
		return e, fmt.Errorf("edit %q: %w", s, err)
	}
	if len(parts) < 2 || parts[1] == "" {
		return e, fmt.Errorf("edit %q: no heads; want op:heads[@scope], e.g. zero:L18H6@question", s)
	}
	if err := e.parseValue(value, hasValue); err != nil {
		return e, fmt.Errorf("edit %q: %w", s, err)
	}
	if rope.IsTableFile(e.Table) && readFile != nil {
		if err := e.readTable(); err != nil {
			return e, fmt.Errorf("edit %q: %w", s, err)
		}
	}
	where := parts[1]
	if e.takesPlanes() || e.Op == OpZeroDims {
		h, p, ok := cutLast(where, ":")
		if !ok {
			return e, fmt.Errorf("edit %q: %s needs %s", s, e.Op, map[bool]string{true: "planes, e.g. :slow16", false: "dims, e.g. :0+5+7"}[e.takesPlanes()])
		}
		where = h
		if err := e.parsePlanes(p); err != nil {
			return e, fmt.Errorf("edit %q: %w", s, err)
		}
	}
	var err error
	if e.Heads, err = parseHeads(where, readFile); err != nil {
		return e, fmt.Errorf("edit %q: %w", s, err)
	}
	return e, e.Check()
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (o Op) check() error {
	all := slices.Concat(baseOps, variantOps)
	if slices.Contains(all, o) {
		return nil
	}
	names := make([]string, len(all))
	for i, op := range all {
		names[i] = string(op)
	}
	return fmt.Errorf("unknown operation %q; want one of %s", string(o), strings.Join(names, ", "))
}

// parseValue reads what stands behind the operation's "=".
func (e *Edit) parseValue(value string, given bool) error {
	example := map[Op]string{OpScale: "0.5", OpScalePlanes: "0.5", OpTemperature: "2", OpSwap: "theta10000", OpStreaming: "4+64", OpLengthScale: "0.1+512", OpPath: "L12H3.q"}[e.Op]
	if given != (example != "") {
		if given {
			return fmt.Errorf("%s takes no value", e.Op)
		}
		return fmt.Errorf("%s takes a value, e.g. %s=%s:...", e.Op, e.Op, example)
	}
	var err error
	switch e.Op {
	case OpSwap:
		e.Table = value
	case OpStreaming:
		sink, recent, _ := strings.Cut(value, "+")
		if e.Sink, err = strconv.Atoi(sink); err == nil {
			e.Recent, err = strconv.Atoi(recent)
		}
		if err != nil {
			return fmt.Errorf("value %q: want SINK+RECENT, two numbers of keys", value)
		}
	case OpLengthScale:
		gain, length, _ := cutLast(value, "+")
		if e.Value, err = strconv.ParseFloat(gain, 64); err == nil {
			e.Length, err = strconv.Atoi(length)
		}
		if err != nil {
			return fmt.Errorf("value %q: want GAIN+LENGTH, such as 0.1+512", value)
		}
	case OpPath:
		source, input, _ := strings.Cut(value, ".")
		h, err := ParseHead(source)
		if err != nil {
			return fmt.Errorf("value %q: want SOURCE.INPUT, such as L12H3.q", value)
		}
		e.Source, e.Input = &h, input
	default:
		if given {
			if e.Value, err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("value %q is not a number", value)
			}
		}
	}
	return nil
}

func (e *Edit) parsePlanes(p string) error {
	if e.takesPlanes() && rope.IsBand(p) {
		e.Band = p
		_, err := rope.ParseBand(p)
		return err
	}
	for _, f := range strings.Split(p, "+") {
		n, err := strconv.Atoi(f)
		switch {
		case err != nil && e.Op == OpZeroDims:
			return fmt.Errorf("dims %q: want numbers of dimensions joined by +", p)
		case err != nil:
			return fmt.Errorf("planes %q: want a band, such as slow16, or plane numbers joined by +", p)
		case e.Op == OpZeroDims:
			e.Dims = append(e.Dims, n)
		default:
			e.Planes = append(e.Planes, n)
		}
	}
	return nil
}

// readTable puts the frequencies of a table file into the edit; the file's name for them takes the place of its path.
func (e *Edit) readTable() error {
	f, err := rope.ReadFile(e.Table)
	if err != nil {
		return err
	}
	e.Table, e.InvFreq = f.Name, f.Planes
	return nil
}

func parseHeads(s string, readFile func(string) ([]Head, error)) ([]Head, error) {
	var out []Head
	for _, f := range splitHeads(s) {
		h, err := ParseHead(strings.TrimSpace(f))
		if err != nil {
			if readFile == nil || looksLikeHead(s) {
				return nil, err
			}
			return readFile(s)
		}
		out = append(out, h)
	}
	return out, nil
}

// looksLikeHead tells a mistyped head from a file name, so that the message fits.
func looksLikeHead(s string) bool { return !strings.ContainsAny(s, "./\\") }

// splitHeads splits at commas outside brackets, so that [13,4] stays whole.
func splitHeads(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, r := range s {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// Check reports what is wrong with the edit whatever the model.
func (e Edit) Check() error {
	if err := e.Op.check(); err != nil {
		return err
	}
	if _, err := e.Scope.Resolve(2, 1); err != nil {
		return err
	}
	if len(e.Heads) == 0 {
		return fmt.Errorf("edit %s: no heads", e.Op)
	}
	if e.takesPlanes() != (len(e.Planes) > 0 || e.Band != "") || (len(e.Planes) > 0 && e.Band != "") {
		return fmt.Errorf("edit %s: want %s", e.Op, map[bool]string{true: "either planes or a band", false: "no planes"}[e.takesPlanes()])
	}
	if (e.Op == OpZeroDims) != (len(e.Dims) > 0) {
		return fmt.Errorf("edit %s: want %s", e.Op, map[bool]string{true: "dims", false: "no dims"}[e.Op == OpZeroDims])
	}
	if e.Band != "" {
		if _, err := rope.ParseBand(e.Band); err != nil {
			return fmt.Errorf("edit %s: %w", e.Op, err)
		}
	}
	if err := e.checkVariant(); err != nil {
		return fmt.Errorf("edit %s: %w", e.Op, err)
	}
	if !e.takesValue() && e.Value != 0 {
		return fmt.Errorf("edit %s: takes no value, got %g", e.Op, e.Value)
	}
	switch v := e.Value; {
	case e.Op == OpTemperature && !(v >= 1/MaxGain && v <= MaxGain):
		return fmt.Errorf("edit temperature: value %g, want %g to %g: beyond, scores overflow", v, 1/MaxGain, MaxGain)
	case !(math.Abs(v) <= MaxGain):
		return fmt.Errorf("edit %s: value %g, want %g to %g: beyond, scores overflow", e.Op, v, -MaxGain, MaxGain)
	}
	return nil
}

// MaxGain bounds what an edit, and all edits of one input together, multiply by: beyond it queries times keys come near the score that
// hides a key, and a residual's square near the end of float32.
const MaxGain = 1e4

// Identity tells whether the edit changes nothing by what it asks for.
func (e Edit) Identity() bool {
	switch e.Op {
	case OpScale, OpScalePlanes, OpTemperature:
		return e.Value == 1
	case OpLengthScale:
		return e.Value == 0
	}
	return false
}

// Turns tells whether the edit is about rotation, so that heads of layers without it are left out: it names planes by their speed, or another
// table.
func (e Edit) Turns() bool { return e.Op == OpFreeze || e.Op == OpSwap || e.Band != "" }

// Base tells whether the base program carries the edit out; other edits need a program with more inputs.
func (e Edit) Base() bool { return slices.Contains(baseOps, e.Op) }

// checkVariant checks the fields of single operations.
func (e Edit) checkVariant() error {
	if e.Op == OpSwap {
		if len(e.InvFreq) == 0 {
			_, err := rope.ParseRule(e.Table)
			return err
		}
		for _, w := range e.InvFreq {
			if math.IsNaN(w) || math.IsInf(w, 0) {
				return fmt.Errorf("table %s: frequency %g is not finite", e.Table, w)
			}
		}
	} else if e.Table != "" || len(e.InvFreq) > 0 {
		return fmt.Errorf("takes no table")
	}
	if e.Op == OpStreaming {
		if e.Sink < 0 || e.Recent < 1 {
			return fmt.Errorf("%d sink and %d recent keys, want at least 0 and 1", e.Sink, e.Recent)
		}
	} else if e.Sink != 0 || e.Recent != 0 {
		return fmt.Errorf("takes no numbers of keys")
	}
	if (e.Op == OpLengthScale) != (e.Length > 0) {
		return fmt.Errorf("length %d, want %s", e.Length, map[bool]string{true: "1 or more keys", false: "none"}[e.Op == OpLengthScale])
	}
	return e.checkPath()
}

// UnmarshalJSON reads the object form or the string that ParseEdit reads.
func (e *Edit) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		v, err := ParseEdit(s, nil)
		*e = v
		return err
	}
	type plain Edit
	p := plain{Scope: ScopeAll}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return err
	}
	*e = Edit(p)
	return e.Check()
}

// Canonical returns the edits in an order that does not depend on how they were given, heads and planes sorted and unique.
func Canonical(edits []Edit) []Edit {
	out := make([]Edit, len(edits))
	for i, e := range edits {
		h := append([]Head(nil), e.Heads...)
		sort.Slice(h, func(a, b int) bool { return h[a].Less(h[b]) })
		e.Heads = h[:0]
		for j, x := range h {
			if j == 0 || x != h[j-1] {
				e.Heads = append(e.Heads, x)
			}
		}
		e.Planes, e.Dims = sortedUnique(e.Planes), sortedUnique(e.Dims)
		out[i] = e
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].String() < out[b].String() })
	return out
}

func sortedUnique(list []int) []int {
	out := append([]int(nil), list...)
	sort.Ints(out)
	return slices.Compact(out)
}
