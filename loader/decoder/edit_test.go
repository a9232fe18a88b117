package decoder

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// TestEditRoundTrip: what is printed or stored reads back as the same edit.
func TestEditRoundTrip(t *testing.T) {
	for form, want := range map[string]Edit{
		"zero:L18H6,L20H3@question":        {Op: OpZero, Heads: []Head{{18, 6}, {20, 3}}, Scope: ScopeQuestion},
		"zero:L1H2":                        {Op: OpZero, Heads: []Head{{1, 2}}, Scope: ScopeAll},
		"scale=-0.25:L3H1@answer":          {Op: OpScale, Heads: []Head{{3, 1}}, Value: -0.25, Scope: ScopeAnswer},
		"scale=0:L3H1@last":                {Op: OpScale, Heads: []Head{{3, 1}}, Scope: ScopeLast},
		"scale=1e-07:L3H1":                 {Op: OpScale, Heads: []Head{{3, 1}}, Value: 1e-7, Scope: ScopeAll},
		"uniform:13-4,[14, 5],l15h6@all":   {Op: OpUniform, Heads: []Head{{13, 4}, {14, 5}, {15, 6}}, Scope: ScopeAll},
		"zero_planes:L18H6:slow16@all":     {Op: OpZeroPlanes, Heads: []Head{{18, 6}}, Band: "slow16", Scope: ScopeAll},
		"zero-planes:L18H6:3+1":            {Op: OpZeroPlanes, Heads: []Head{{18, 6}}, Planes: []int{3, 1}, Scope: ScopeAll},
		"scale_planes=2:[0,1]:fast4":       {Op: OpScalePlanes, Heads: []Head{{0, 1}}, Band: "fast4", Value: 2, Scope: ScopeAll},
		"temperature=1.5:L0H0 , L0H1@last": {Op: OpTemperature, Heads: []Head{{0, 0}, {0, 1}}, Value: 1.5, Scope: ScopeLast},
		"freeze:L0H0:random16/7@last":      {Op: OpFreeze, Heads: []Head{{0, 0}}, Band: "random16/7", Scope: ScopeLast},
		"freeze:L0H0:window2-4":            {Op: OpFreeze, Heads: []Head{{0, 0}}, Band: "window2-4", Scope: ScopeAll},
		"legacy:L0H0:wave12.5-@all":        {Op: OpLegacy, Heads: []Head{{0, 0}}, Band: "wave12.5-", Scope: ScopeAll},
		"swap=jitter2048/7:L0H0@last":      {Op: OpSwap, Heads: []Head{{0, 0}}, Table: "jitter2048/7", Scope: ScopeLast},
		"zero_dims:L0H0,L1H2:3+1":          {Op: OpZeroDims, Heads: []Head{{0, 0}, {1, 2}}, Dims: []int{3, 1}, Scope: ScopeAll},
		"zero:L0H0@haystack":               {Op: OpZero, Heads: []Head{{0, 0}}, Scope: ScopeHaystack},
	} {
		got, err := ParseEdit(form, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", form, got, err, want)
			continue
		}
		roundTrip(t, got)
	}
}

func roundTrip(t *testing.T, e Edit) {
	t.Helper()
	again, err := ParseEdit(e.String(), nil)
	if err != nil || !reflect.DeepEqual(again, e) {
		t.Errorf("%s: parsed back: got %+v, %v, want %+v", e, again, err, e)
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var stored, printed Edit
	if err := json.Unmarshal(b, &stored); err != nil || !reflect.DeepEqual(stored, e) {
		t.Errorf("%s: stored as %s: got %+v, %v", e, b, stored, err)
	}
	text, err := json.Marshal(e.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &printed); err != nil || !reflect.DeepEqual(printed, e) {
		t.Errorf("%s: as a JSON string: got %+v, %v", e, printed, err)
	}
}

func TestEditErrors(t *testing.T) {
	for form, want := range map[string]string{
		"":                               "unknown operation",
		"zero":                           "no heads",
		"zero:":                          "no heads",
		"zero:@question":                 "no heads",
		"erase:L0H0":                     `unknown operation "erase"`,
		"zero:L0":                        `head "L0"`,
		"zero:L0H0,":                     `head ""`,
		"zero:L0H99999999999999999999":   "out of range",
		"zero:L0H0@":                     `scope ""`,
		"zero:L0H0@everywhere":           `scope "everywhere"`,
		"zero=2:L0H0":                    "takes no value",
		"scale:L0H0":                     "takes a value",
		"scale=:L0H0":                    "is not a number",
		"scale=two:L0H0":                 `value "two" is not a number`,
		"scale=NaN:L0H0":                 "scores overflow",
		"scale=1e39:L0H0":                "want -10000 to 10000",
		"scale=1e999:L0H0":               "is not a number",
		"temperature=0:L0H0":             "want 0.0001 to 10000",
		"temperature=-1:L0H0":            "want 0.0001 to 10000",
		"temperature=1e-50:L0H0":         "want 0.0001 to 10000",
		"zero_planes:L0H0":               "needs planes",
		"zero_planes:L0H0:slow3":         "even number",
		"zero_planes:L0H0:slow0":         "even number",
		"zero_planes:L0H0:slow+4":        "even number",
		"zero_planes:L0H0:slow04":        "even number",
		"zero_planes:L0H0:fast":          "even number",
		"zero_planes:L0H0:medium4":       "want slowK, fastK or midK",
		"zero_planes:L0H0:1+":            "plane numbers joined by +",
		"zero:L0H0:slow4":                `head "L0H0:slow4"`,
		"freeze:L0H0":                    "needs planes",
		"swap:L0H0":                      "takes a value",
		"swap=theta:L0H0":                "finite number > 0",
		"swap=moebius-4:L0H0":            "finite number > 0",
		"swap=nope2:L0H0":                "takes no number",
		"streaming=4:L0H0":               "want SINK+RECENT",
		"streaming=4+0:L0H0":             "want at least 0 and 1",
		"patch=1:L0H0":                   "takes no value",
		"zero_planes:L0H0:slow4@nowhere": `scope "nowhere"`,
	} {
		e, err := ParseEdit(form, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %+v, %v, want an error of one line with %q", form, e, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"op":"zero"}`: "no heads",
		`{"op":"zero","heads":[[0,0]],"rows":"all"}`:                       `unknown field "rows"`,
		`{"op":"zero","heads":[[0]]}`:                                      "want [layer, index]",
		`{"op":"zero","heads":[[0,-1]]}`:                                   "negative",
		`{"op":"zero","heads":[[0,0]],"value":1}`:                          "takes no value",
		`{"op":"zero","heads":[[0,0]],"planes":[1]}`:                       "no planes",
		`{"op":"zero_planes","heads":[[0,0]]}`:                             "either planes or a band",
		`{"op":"zero_planes","heads":[[0,0]],"band":"slow4","planes":[1]}`: "either planes or a band",
		`{"op":"zero_planes","heads":[[0,0]],"band":"sl"}`:                 "even number",
		`{"op":"zero_planes","heads":[[0,0]],"band":"slowest"}`:            "even number",
		`{"op":"freeze","heads":[[0,0]]}`:                                  "either planes or a band",
		`{"op":"swap","heads":[[0,0]]}`:                                    "want one of own",
		`{"op":"swap","heads":[[0,0]],"inv_freq":[1,1e999]}`:               "cannot unmarshal",
		`{"op":"zero","heads":[[0,0]],"table":"nope"}`:                     "takes no table",
		`{"op":"zero","heads":[[0,0]],"sink":4}`:                           "takes no numbers of keys",
		`{"op":"streaming","heads":[[0,0]]}`:                               "want at least 0 and 1",
		`{"op":"scale","heads":[[0,0]],"value":"2"}`:                       "cannot unmarshal",
		`"zero:L0H0@x"`: `scope "x"`,
		`{"op":"zero","heads":["L0H0","1-2",[3,4]],"scope":"question","band":"x"}`: "no planes",
	} {
		var e Edit
		if err := json.Unmarshal([]byte(text), &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want an error with %q", text, e, err, want)
		}
	}
}

// TestEditHeadsFromFile: what does not look like a head is a file's name.
func TestEditHeadsFromFile(t *testing.T) {
	asked := ""
	read := func(path string) ([]Head, error) {
		asked = path
		return []Head{{4, 5}}, nil
	}
	e, err := ParseEdit("zero_planes:out/heads,v2.json:slow4@question", read)
	if err != nil || asked != "out/heads,v2.json" || !slices.Equal(e.Heads, []Head{{4, 5}}) || e.Band != "slow4" || e.Scope != ScopeQuestion {
		t.Errorf("got %+v, %v, file %q", e, err, asked)
	}
	asked = ""
	if _, err := ParseEdit("zero:L0H0,LOH1", read); err == nil || asked != "" {
		t.Errorf("a mistyped head was read as the file %q: %v", asked, err)
	}
}

func TestScopes(t *testing.T) {
	for s, want := range map[Scope]Rows{
		ScopeAll: {0, Forever}, ScopeHaystack: {0, 7}, ScopeQuestion: {7, Forever}, ScopeAnswer: {9, Forever}, ScopeLast: {9, 10},
	} {
		if got, err := s.Resolve(10, 7); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", s, got, err, want)
		}
		_, err := s.Resolve(10, 0)
		if needs := s == ScopeHaystack || s == ScopeQuestion; (err != nil) != needs {
			t.Errorf("%s without a question: got %v", s, err)
		}
	}
}

func TestCanonical(t *testing.T) {
	a := []Edit{
		{Op: OpZero, Heads: []Head{{2, 1}, {0, 3}, {2, 1}}, Scope: ScopeAll},
		{Op: OpScalePlanes, Heads: []Head{{1, 1}}, Planes: []int{4, 0, 4}, Value: 2, Scope: ScopeAll},
	}
	want := []Edit{
		{Op: OpScalePlanes, Heads: []Head{{1, 1}}, Planes: []int{0, 4}, Value: 2, Scope: ScopeAll},
		{Op: OpZero, Heads: []Head{{0, 3}, {2, 1}}, Scope: ScopeAll},
	}
	if got := Canonical(a); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	slices.Reverse(a)
	if got := Canonical(a); !reflect.DeepEqual(got, want) {
		t.Errorf("reversed: got %+v, want %+v", got, want)
	}
	if !slices.Equal(a[1].Heads, []Head{{2, 1}, {0, 3}, {2, 1}}) {
		t.Errorf("the edits given were changed: %v", a[1].Heads)
	}
}

// TestResolve: gains and row ranges, and what a model cannot do.
func TestResolve(t *testing.T) {
	table, err := rope.New(rope.Config{Type: "default", Theta: 10000}, 16, 512)
	if err != nil {
		t.Fatal(err)
	}
	g := geometry{layers: 3, heads: 4, planes: table.Planes(), tables: []*rope.Table{table, table, table}}
	c, err := g.resolve(edits(t, "scale=2:L1H2,L1H2@question", "scale=3:L1H2@question", "scale_planes=3:L2H0:1+1+7@answer", "temperature=2:L2H0@answer"), 10, 7)
	if err != nil {
		t.Fatal(err)
	}
	if c.first != 1 || c.lo != 7 || len(c.layers) != 2 {
		t.Errorf("got first layer %d, first row %d, %d layers", c.first, c.lo, len(c.layers))
	}
	if l := c.layers[1]; !slices.Equal(l.head, []float32{1, 1, 6, 1}) || !slices.Equal(l.headRows[4:6], []int32{7, Forever}) || slices.Max(l.q) != 1 || slices.Min(l.q) != 1 {
		t.Errorf("layer 1: got %+v", l)
	}
	if q := c.layers[2].q[:9]; !slices.Equal(q, []float32{.5, 1.5, .5, .5, .5, .5, .5, 1.5, .5}) {
		t.Errorf("layer 2: got query gains %v", q)
	}
	for _, c := range []struct {
		forms []string
		want  string
	}{
		{[]string{"zero:L3H0"}, "head L3H0 does not exist: the model has layers 0-2 with heads 0-3"},
		{[]string{"zero:L0H4"}, "head L0H4 does not exist"},
		{[]string{"zero_planes:L0H0:slow18"}, "band slow18: the model rotates 16 dimensions"},
		{[]string{"zero_planes:L0H0:8"}, "plane 8 does not exist: the model has planes 0-7"},
		{[]string{"zero_planes:L0H0:-1"}, "plane -1 does not exist"},
		{[]string{"zero:L0H0@question", "scale=2:L0H0@answer"}, "two edits with different scopes at one site"},
		{[]string{"uniform:L0H0@all", "zero_planes:L0H0:slow4@last"}, "two edits with different scopes at one site"},
	} {
		if _, err := g.resolve(edits(t, c.forms...), 10, 7); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: got %v, want %q", c.forms, err, c.want)
		}
	}
	if _, err := g.resolve(edits(t, "zero:L0H0@question", "uniform:L0H0@answer"), 10, 7); err != nil {
		t.Errorf("different scopes at a head's two sites: %v", err)
	}
	if _, err := g.resolve(edits(t, "zero:L0H0@question"), 10, 0); err == nil || !strings.Contains(err.Error(), "no question span") {
		t.Errorf("question scope without a question: got %v", err)
	}
}

// TestBandsResolve: the gains of a band are those of the planes that package rope finds in the layer's table.
func TestBandsResolve(t *testing.T) {
	table := &rope.Table{InvFreq: []float64{1, 0.25, 0.5, 0.03125, 0.125, 0.125, 0, 0.01}, Scale: 1, RotaryDim: 16}
	g := geometry{layers: 1, heads: 1, kv: 1, planes: 8, tables: []*rope.Table{table}}
	for _, name := range []string{"slow4", "fast6", "mid4", "random8/7", "window2-4", "wave100-"} {
		c, err := g.resolve(edits(t, "zero_planes:L0H0:"+name), 10, 7)
		if err != nil {
			t.Fatal(err)
		}
		band, err := rope.ParseBand(name)
		if err != nil {
			t.Fatal(err)
		}
		planes, err := band.Planes(table)
		if err != nil {
			t.Fatal(err)
		}
		for p, gain := range c.layers[0].q {
			if zero := slices.Contains(planes, p); (gain == 0) != zero || !zero && gain != 1 {
				t.Errorf("%s: gain %g at plane %d, want 0 at %v and 1 elsewhere", name, gain, p, planes)
			}
		}
	}
}

// FuzzParseEdit: nothing panics, an accepted form prints as one that reads back the same, an error is one line for one-line input.
func FuzzParseEdit(f *testing.F) {
	for _, s := range []string{
		"zero:L18H6,L20H3@question", "scale=0.5:L3H1", "zero_planes:L18H6:slow16@all", "scale_planes=-2e3:[1,2]:0+3", "temperature=1:13-4@last",
		"uniform:", "freeze:x:slow16", "zero:L0H0@", "@", ":", "zero:[", "zero:]],[", "scale_planes=0x1p-2:L0H0:fast2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEdit(s, nil)
		if err != nil {
			if !strings.Contains(s, "\n") && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error of several lines: %v", s, err)
			}
			return
		}
		roundTrip(t, e)
		roundTrip(t, Canonical([]Edit{e})[0])
	})
}
