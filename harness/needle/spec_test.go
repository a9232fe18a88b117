package needle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func specs(t testing.TB, o Options) []Spec {
	t.Helper()
	s, err := Specs(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A sample does not depend on how many there are, and another seed gives another one.
func TestSpecsOfASample(t *testing.T) {
	few, many := specs(t, Options{Seed: 7, Split: Test, N: 10}), specs(t, Options{Seed: 7, Split: Test, N: 300})
	if !reflect.DeepEqual(few, many[:10]) {
		t.Error("the first ten of 300 samples are not the ten samples")
	}
	other := specs(t, Options{Seed: 8, Split: Test, N: 10})
	for i := range few {
		if few[i].Codes[0] == other[i].Codes[0] || reflect.DeepEqual(first(few[i], 5), first(other[i], 5)) {
			t.Errorf("sample %d: seeds 7 and 8 share a code or the haystack", i)
		}
	}
}

func first(s Spec, n int) []string {
	var out []string
	for text := range s.Sentences() {
		if out = append(out, text); len(out) == n {
			break
		}
	}
	return out
}

// Templates and depths are crossed: every len(templates)*len(depths) samples have each pair once.
func TestSpecsAreBalanced(t *testing.T) {
	n := len(defaultNames(Detect)) * len(DefaultDepths())
	count, kinds := map[string]int{}, map[string]int{}
	for _, s := range specs(t, Options{Split: Detect, N: 3 * n}) {
		key, _ := json.Marshal([]any{s.Template, s.Depth})
		count[string(key)]++
	}
	if len(count) != n || n != 40 {
		t.Errorf("%d pairs of template and depth, want %d", len(count), n)
	}
	for k, c := range count {
		if c != 3 {
			t.Errorf("%s: %d times, want 3", k, c)
		}
	}
	for i, s := range specs(t, Options{Split: Agreement, N: 16 * 5}) {
		if s.Kind != Kinds()[i%4] {
			t.Errorf("sample %d is of kind %s, want %s", i, s.Kind, Kinds()[i%4])
		}
		key, _ := json.Marshal([]any{s.Kind, s.Template, s.Depth})
		kinds[string(key)]++
	}
	if want := (4 + 4 + 4 + 2) * 5; len(kinds) != want {
		t.Errorf("%d triples of kind, template and depth, want %d", len(kinds), want)
	}
}

func TestSpecFields(t *testing.T) {
	for _, s := range specs(t, Options{Seed: 5, Split: Test, N: 400}) {
		if s.Subject == s.DecoySubject {
			t.Errorf("%s: the decoy is about the needle's subject %s", s.ID, s.Subject)
		}
		if d := s.Depth - s.DecoyDepth; d > -0.1999 && d < 0.1999 || s.DecoyDepth < 0 || s.DecoyDepth > 1 {
			t.Errorf("%s: depth %g and decoy depth %g", s.ID, s.Depth, s.DecoyDepth)
		}
		all := slices.Concat(s.Codes, s.Decoys, s.Donors)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(s.Codes)+len(s.Decoys)+len(s.Donors) || len(s.Codes) < 64 {
			t.Errorf("%s: candidates repeat, or are fewer than 64", s.ID)
		}
		for _, c := range all {
			if strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" || isDigit(c[0]) || !strings.ContainsAny(c, "0123456789") {
				t.Errorf("%s: code %q", s.ID, c)
			}
		}
	}
}

// No sentence of Agreement's grammar can be one of the other splits': they begin with words that no pattern of those begins with, and its
// codes have small letters.
func TestAgreementIsApart(t *testing.T) {
	for _, g := range [][2]*grammar{{haystackGrammar, agreementGrammar}, {fillerGrammar, agreementFillers}} {
		begins := func(g *grammar) (out []string) {
			for _, p := range g.patterns {
				if list := p[0].choices; list != nil {
					out = append(out, list...)
				} else {
					out = append(out, p[0].text)
				}
			}
			return out
		}
		for _, a := range begins(g[1]) {
			for _, b := range begins(g[0]) {
				a, b = strings.ToLower(a), strings.ToLower(b)
				if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
					t.Errorf("%q and %q begin alike", a, b)
				}
			}
		}
	}
	for _, s := range specs(t, Options{Seed: 5, Split: Agreement, N: 40}) {
		for _, c := range slices.Concat(s.Codes, s.Decoys, s.Donors) {
			if c == strings.ToUpper(c) || isDigit(c[0]) || !strings.ContainsAny(c, "0123456789") {
				t.Errorf("%s: code %q", s.ID, c)
			}
		}
	}
}

// The splits share no code, subject, wording or sentence.
func TestSplitsAreDisjoint(t *testing.T) {
	seen := map[string]bool{}
	collect := func(split Split, visit func(string)) {
		for _, s := range specs(t, Options{Seed: 11, Split: split, N: 200}) {
			for _, text := range slices.Concat(s.Codes, s.Decoys, s.Donors, first(s, 200), []string{s.Subject, s.DecoySubject}) {
				visit(text)
			}
			tm := templateByName(s.Template)
			visit(tm.wordings(split)[s.Wording].needle)
		}
		for _, f := range generatedFillers(split) {
			visit(f)
		}
	}
	n := 0
	for _, split := range Splits() {
		var own []string
		collect(split, func(s string) {
			if n++; seen[s] {
				t.Errorf("%q stands in two splits", s)
			}
			own = append(own, s)
		})
		for _, s := range own {
			seen[s] = true
		}
	}
	if n < 300_000 {
		t.Errorf("only %d texts compared", n)
	}
}

func TestSpecsErrors(t *testing.T) {
	for want, o := range map[string]Options{
		`split "train"`:     {Split: "train", N: 1},
		"0 prompts":         {Split: Test},
		`template "riddle"`: {Split: Test, N: 1, Templates: []string{"riddle"}},
		"depth 1.5":         {Split: Test, N: 1, Depths: []float64{1.5}},
	} {
		if _, err := Specs(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
}

// What a seed gives is part of every result's key: a change of templates, word lists or streams is a change of all experiments, and has
// to be made on purpose.
func TestSpecsStayTheSame(t *testing.T) {
	h := sha256.New()
	for _, split := range []Split{Detect, Test} {
		for _, s := range specs(t, Options{Seed: 42, Split: split, N: 80}) {
			tm := templateByName(s.Template)
			w := tm.wordings(split)[s.Wording]
			if err := json.NewEncoder(h).Encode([]any{s, w.needle, w.question, w.prefix, first(s, 40)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.NewEncoder(h).Encode(generatedFillers(split)); err != nil {
			t.Fatal(err)
		}
	}
	const want = "5a9e65f1149dfba15192d0e91cfe149d40f9f796f4e56ff1fc38ef545f712b07"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("specs have the hash %s, want %s", got, want)
	}
}
