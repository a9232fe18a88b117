package rope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Rule makes a rotary table, from nothing or from a checkpoint's own: what a name such as "moebius2048" or "times0.5" stands for.
// It is a value: rules of one spelling are equal.
type Rule struct {
	kind   string
	number float64
	option int64 // behind a slash, noOption where there is none
}

const noOption = -1

// kind is a name and what stands behind it.
type kind struct {
	name    string
	args    string // how the name goes on
	number  string // what the number is, "" where there is none
	option  string // what the integer behind the slash is, "" where there is none
	must    bool   // the integer may not be left out
	alters  bool   // the rule needs the checkpoint's own table
	formula string
}

func kinds() []kind {
	return []kind{
		{name: "own", alters: true, formula: "the checkpoint's own table"},
		{name: "nope", formula: "0: nothing turns"},
		{name: "theta", args: "B", number: "the base", formula: "theta^(-2i/R)"},
		{name: "moebius", args: "N", number: "N", formula: "pi (2i+1)/N"},
		{name: "periodic", args: "N[/S]", number: "N", option: "the first harmonic S, 1 without it", formula: "2 pi (i+S)/N"},
		{name: "geometric", args: "N", number: "N", formula: "(pi/N) (R-1)^(i/(R/2-1))"},
		{name: "uniform", args: "N/SEED", number: "N", option: "a seed", must: true, formula: "sorted, uniform between pi/N and pi (R-1)/N"},
		{name: "jitter", args: "N/SEED", number: "N", option: "a seed", must: true, formula: "pi (2i+1)/N, each moved by up to pi/N"},
		{name: "moved", args: "N[/PLANE]", number: "N", option: "the plane, the nearest without it", alters: true, formula: "the checkpoint's own, one plane moved to pi/N"},
		{name: "times", args: "F", number: "a factor F", alters: true, formula: "the checkpoint's own times F (linear scaling by 1/F)"},
		{name: "tilt", args: "M", number: "a factor M", alters: true, formula: "the checkpoint's own times M^(-2i/R): its base times M, after its scaling"},
		{name: "thetatimes", args: "M", number: "a factor M", alters: true, formula: "the checkpoint's base times M, then its scaling"},
		{name: "ntk", args: "F", number: "a factor F", alters: true, formula: "the checkpoint's base times F^(R/(R-2)), then its scaling"},
		{name: "yarn", args: "F/LENGTH", number: "a factor F", option: "the positions before scaling", must: true, alters: true,
			formula: "YaRN by F of the checkpoint's unscaled ladder, factor on cosine and sine included"},
	}
}

// kindOf is the entry of a name; ok is false where there is none.
func kindOf(name string) (k kind, ok bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// Rules describes the grammar of ParseRule, a line a rule: its form, what it stands for.
func Rules() (lines [][2]string) {
	for _, k := range kinds() {
		lines = append(lines, [2]string{k.name + k.args, k.formula})
	}
	return lines
}

// ParseRule reads the name of a table: a rule of [Rules], its number, and where it has one an integer behind a slash, such as
// "theta500000", "periodic2048/0" or "nope". Errors say what would be valid.
func ParseRule(name string) (Rule, error) {
	if IsTableFile(name) {
		return Rule{}, fmt.Errorf("table %q: only names are taken here; the frequencies of a file have to be given themselves", name)
	}
	end := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		end = len(name)
	}
	k, ok := kindOf(name[:end])
	if !ok {
		var forms []string
		for _, line := range Rules() {
			forms = append(forms, line[0])
		}
		return Rule{}, fmt.Errorf("table %q: want one of %s, or a FILE.json", name, strings.Join(forms, ", "))
	}
	rest := name[end:]
	out := Rule{kind: k.name, option: noOption}
	if k.number == "" {
		if rest != "" {
			return Rule{}, fmt.Errorf("table %q: %s takes no number", name, k.name)
		}
		return out, nil
	}
	digits, option, given := strings.Cut(rest, "/")
	var err error
	if out.number, err = strconv.ParseFloat(digits, 64); err != nil || !positive(out.number) {
		return Rule{}, fmt.Errorf("table %q: got %q behind %s, want %s, a finite number > 0", name, digits, k.name, k.number)
	}
	switch {
	case given && k.option == "":
		return Rule{}, fmt.Errorf("table %q: %s takes one number", name, k.name)
	case !given && k.must:
		return Rule{}, fmt.Errorf("table %q: want %s behind a slash, e.g. %s/7", name, k.option, name)
	case given:
		u, err := strconv.ParseInt(option, 10, 32)
		if err != nil || u < 0 {
			return Rule{}, fmt.Errorf("table %q: got %q behind the slash, want %s, an integer >= 0", name, option, k.option)
		}
		out.option = u
	}
	if k.name == "yarn" && out.option == 0 {
		return Rule{}, fmt.Errorf("table %q: got 0 positions before scaling, want > 0", name)
	}
	return out, nil
}

// String is the name that ParseRule reads.
func (r Rule) String() string {
	k, _ := kindOf(r.kind)
	if k.number == "" {
		return r.kind
	}
	s := r.kind + strconv.FormatFloat(r.number, 'g', -1, 64)
	if r.option != noOption {
		s += "/" + strconv.FormatInt(r.option, 10)
	}
	return s
}

// Formula says in words what the frequencies are.
func (r Rule) Formula() string {
	k, _ := kindOf(r.kind)
	return k.formula
}

// Alters tells whether the rule starts from a checkpoint's own table.
func (r Rule) Alters() bool {
	k, _ := kindOf(r.kind)
	return k.alters
}

// Length is the N of a ladder that has one, in tokens; 0 for others.
func (r Rule) Length() float64 {
	if k, _ := kindOf(r.kind); k.number == "N" {
		return r.number
	}
	return 0
}

// drawStream is the stream of a rule's random numbers, so that a seed used elsewhere gives others.
const drawStream = 0x7461626c65 // "table"

func (r Rule) draws(n int) []float64 {
	rng := rand.New(rand.NewPCG(uint64(r.option), drawStream))
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.Float64()
	}
	return out
}

// Apply returns the rule's table of own's size. The factor on cosine and sine stays own's, save that yarn multiplies it by its own. A rule
// that does not alter takes from own nothing but size and factor.
//
// The errors are those of a plane that is not there, of too few dimensions, of a table that was not made from a base or
// has been scaled already, and of frequencies that are not finite.
func (r Rule) Apply(own *Table) (*Table, error) {
	planes, n := own.Planes(), r.number
	var out *Table
	var err error
	switch r.kind {
	case "own":
		out = own.derived(slices.Clone(own.InvFreq))
	case "nope":
		out = NoPE(planes)
	case "theta":
		out = plain(ladder(n, own.RotaryDim))
	case "moebius":
		out = Moebius(planes, n)
	case "periodic":
		out = Periodic(planes, n, r.first())
	case "geometric":
		out = Geometric(planes, n)
	case "uniform":
		out = Uniform(n, r.draws(planes))
	case "jitter":
		out = Jitter(n, r.draws(planes))
	case "moved":
		out, err = r.move(own)
	case "times":
		out = own.Times(n)
	case "tilt":
		out = own.Tilted(n)
	default:
		return r.rebuild(own)
	}
	if err != nil {
		return nil, err
	}
	out.Scale = own.Scale
	return out, r.finite(out)
}

// MaxFrequency bounds the frequencies of tables that are asked for, radians a token. A frequency above pi turns like a lower one at whole
// positions; far above, an angle of float32 arithmetic keeps nothing of its fraction of a turn.
const MaxFrequency = 1000

func (r Rule) finite(t *Table) error {
	for i, w := range t.InvFreq {
		if !(math.Abs(w) <= MaxFrequency) {
			return fmt.Errorf("table %s: plane %d: got frequency %v, want a finite one, %d radians a token at most", r, i, w, MaxFrequency)
		}
	}
	return nil
}

// first is the first harmonic of a periodic ladder.
func (r Rule) first() int {
	if r.option == noOption {
		return 1
	}
	return int(r.option)
}

func (r Rule) move(own *Table) (*Table, error) {
	plane := int(r.option)
	if r.option == noOption {
		if plane = own.Nearest(math.Pi / r.number); plane < 0 {
			return nil, fmt.Errorf("table %s: no plane of the checkpoint's table turns; name one, e.g. %s/0", r, r)
		}
	}
	if plane >= own.Planes() {
		return nil, fmt.Errorf("table %s: plane %d does not exist: the model has planes 0-%d", r, plane, own.Planes()-1)
	}
	return own.Moved(plane, r.number), nil
}

// rebuild applies the rules that change the config from which the table was made.
func (r Rule) rebuild(own *Table) (*Table, error) {
	if own.from == nil {
		return nil, fmt.Errorf("table %s: the model's table is a list of frequencies and has no base to change", r)
	}
	c := own.from.config
	switch r.kind {
	case "thetatimes":
		c = c.Rebase(r.number)
	case "ntk":
		if own.RotaryDim < 4 {
			return nil, fmt.Errorf("table %s: rotary dimensions: got %d, want at least 4", r, own.RotaryDim)
		}
		c = c.NTK(r.number, own.RotaryDim)
	case "yarn":
		if c.Type != "default" {
			return nil, fmt.Errorf("table %s: the model's table is of type %s, want one without scaling (default)", r, c.Type)
		}
		c.Type, c.Factor, c.OriginalMaxPositions = "yarn", r.number, int(r.option)
	}
	out, err := New(c, own.from.headDim, own.from.passLength)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", r, err)
	}
	return out, nil
}

// Closed is the closed form of the kernel of the rule's table of so many planes, nil where none is known.
func (r Rule) Closed(planes int) func(n float64) float64 {
	switch r.kind {
	case "nope":
		return func(float64) float64 { return 1 }
	case "moebius":
		return func(n float64) float64 { return MoebiusKernel(planes, r.number, n) }
	case "periodic":
		return func(n float64) float64 { return PeriodicKernel(planes, r.number, r.first(), n) }
	}
	return nil
}
