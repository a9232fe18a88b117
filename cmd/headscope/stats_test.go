package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// statsCases have one input a statistic at least, and numbers of its output by dotted path: from shared reference data (scipy,
// statsmodels, numpy), from published results, or by hand. "null" is an undefined one.
var statsCases = []struct {
	name, input string
	want        map[string]string
}{
	{"describe", `{"x": [4, null, 7, 13, 16]}`, map[string]string{"n": "4", "missing": "1", "mean": "10", "var_ddof1": "30", "median": "10"}},
	{"describe", `{"x": []}`, map[string]string{"mean": "null", "undefined.mean": "no data"}},
	{"quantile", `{"x": [5, 1], "q": [0, 0.25, 1]}`, map[string]string{"quantiles.0": "1", "quantiles.1": "2", "quantiles.2": "5"}},
	{"quantile", `{"x": [5, null], "q": [0.5]}`, map[string]string{"quantiles.0": "null", "undefined.quantiles[0]": "a missing value (NaN) in the data"}},
	{"gini", `{"x": [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]}`, map[string]string{"value": "0.9"}},
	{"wilson", `{"k": 35, "n": 200}`, map[string]string{"value.0": "0.128605", "value.1": "0.233644"}},
	{"wilson", `{"k": 0, "n": 0}`, map[string]string{"value": "null", "undefined.value": "no data"}},
	{"clopper-pearson", `{"k": 196, "n": 200}`, map[string]string{"value.0": "0.949586", "value.1": "0.994524"}},
	{"holm", `{"p": [0.9998, 0.00029997, 0.00009999, 0.6475352]}`, map[string]string{"p.1": "0.00089991", "p.3": "1", "reject.1": "true", "tests": "4"}},
	{"bh", `{"p": [0.9998, 0.00029997, 0.00009999, 0.6475352, null]}`, map[string]string{"p.1": "0.00059994", "p.3": "0.8633803", "p.4": "null", "undefined.p[4]": "a missing value (NaN) in the data"}},
	{"mcnemar", `{"b": 23, "c": 0}`, map[string]string{"p_exact": "2.384185791015625e-07"}},
	{"mcnemar-outcomes", `{"before": [1, 1, 1, 0], "after": [true, false, false, true]}`, map[string]string{"b": "2", "c": "1", "p_exact": "1"}},
	{"matched-ranks", `{"d": [1, -1, 2, 0, 0, 3, -2, 2]}`, map[string]string{"t_plus": "15.5", "t_minus": "5.5"}},
	{"pearson", `{"x": [1, 2, 3], "y": [1, 3, 2]}`, map[string]string{"r": "0.5", "p": "0.6666667", "df": "1"}},
	{"spearman", `{"x": [1, 2, 3, 4], "y": [1, 2, 4, 3]}`, map[string]string{"r": "0.8", "p": "0.2"}},
	{"spearman", `{"x": [1, 1], "y": [1, 2]}`, map[string]string{"r": "null", "undefined.r": "a constant input"}},
	{"kendall", `{"x": [1, 2, 3, 4, 5], "y": [2, 4, 6, 8, 10]}`, map[string]string{"tau_b": "1", "p_exact": "0.01666667"}},
	{"partial-spearman", `{"x": [1, 2, 11, 12], "y": [2, 1, 12, 11], "layers": [0, 0, 1, 1]}`, map[string]string{"rho_demean_rank": "-1", "layers": "2"}},
	{"test-retest", `{"x": [1, 2, 3, 4], "y": [2, 3, 4, 5]}`, map[string]string{"pearson.r": "1", "icc": "0.7692308", "bias": "1"}},
	{"jaccard", `{"a": ["L8H0", "L18H6"], "b": ["L18H6", "L23H2"]}`, map[string]string{"jaccard": "0.3333333", "union": "3"}},
	{"effects", `{"x1": [1, 2.5], "x0": [0, 4]}`, map[string]string{"mean_diff": "-0.25", "sd_pooled": "2.136001"}},
	{"effects", `{"x1": [1], "x0": [2]}`, map[string]string{"mean_diff": "-1", "cohen_d": "null", "undefined.cohen_d": "no degrees of freedom"}},
	{"demeaned-effects", `{"values": [1, 2, 4, 8], "layers": [0, 0, 0, 0], "labels": [1, 0, 1, 0]}`, map[string]string{"mean_diff": "-2.5"}},
	{"ranks", `{"x": [5, 6, 7], "y": [1, 2]}`, map[string]string{"cliffs_delta": "1", "auroc": "1", "p_exact": "0.2"}},
	{"welch", `{"x": [1, 2, 4], "y": [0, 5, 6]}`, map[string]string{"t": "-0.6488857"}},
	{"welch-summary", `{"mean1": 90.3, "sd1": 5.7, "n1": 6, "mean2": 63.3, "sd2": 31.4, "n2": 6}`, map[string]string{"t": "2.07", "df": "5.33", "p": "0.089"}},
	{"f-test", `{"x": [1, 2, 3, 4], "y": [11, 12, 13, 14]}`, map[string]string{"f": "1", "p_two_sided": "1"}},
	{"f-ratio", `{"f": 1e308, "df1": 1000000, "df2": 1}`, map[string]string{"p_two_sided": "0", "p_greater": "0"}},
	{"head-set", `{"observed": 0.5, "controls": [0, null]}`, map[string]string{"p": "null", "undefined.p": "a missing value (NaN) in the data"}},
	{"f-ratio", `{"f": 30.8, "df1": 5, "df2": 5}`, map[string]string{"p_greater": "0.00092", "p_two_sided": "0.0018"}},
	{"levene", `{"groups": [[1, 2], [0, 5]]}`, map[string]string{"p": "null", "undefined.p": "the deviations are equal inside every group (0 in the denominator)"}},
	{"brown-forsythe", `{"groups": [[1, 2, 3, 4], [11, 12, 13, 14]]}`, map[string]string{"stat": "0", "p": "1"}},
	{"fligner", `{"groups": [[1, 2, 3, 4], [11, 12, 13, 14]]}`, map[string]string{"stat": "0", "p": "1"}},
	{"bartlett", `{"groups": [[1, 2, 3, 4], [11, 12, 13, 14]]}`, map[string]string{"stat": "0", "p": "1"}},
	{"obrien", `{"groups": [[1, 2, 3, 4], [11, 12, 13, 14]]}`, map[string]string{"stat": "0", "p": "1"}},
	{"sign-flip", `{"d": [1, 2, 0.5, 3, 4, 1.5]}`, map[string]string{"t": "2", "p_abs": "0.03125", "draws.exact": "true", "draws.n": "64"}},
	{"mean-difference", `{"x": [2, 2, 2], "y": [2, 2]}`, map[string]string{"p_abs": "1", "draws.n": "10"}},
	{"log-variance-ratio", `{"x": [86, 88.5, 90, 90.5, 88, 99], "y": [14, 98, 52, 88, 61, 67]}`, map[string]string{"draws.n": "924"}},
	{"layer-permutation", `{"values": [10, 11, 12, 13, 14, 0, 1, 2, 3, 4], "layers": [0, 0, 0, 0, 0, 1, 1, 1, 1, 1], "labels": [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]}`,
		map[string]string{"t": "4.375", "null_mean": "6.25", "p_centred": "0.2", "p_legacy": "1", "uninformative_layers": "1"}},
	{"group-permutation", `{"values": [1, 2, 3, 5], "layers": [0, 0, 0, 0], "groups": [0, 0, 1, 1], "labels": [1, 0, 0, 0]}`, map[string]string{"p_less": "0.5", "draws.n": "2"}},
	{"cluster-permutation", `{"values": [1, 2, 3], "clusters": [0, 1, 2], "treated": []}`, map[string]string{"pooled.t": "null", "pooled.undefined.t": "an empty group"}},
	{"split-half", `{"scores": [[1, 5, 2], [1, 5, 2], [1, 5, 2], [1, 5, 2]]}`, map[string]string{"spearman_brown": "1", "splits": "3"}},
	{"bootstrap", `{"x": [2, 2, 2, 2], "resamples": 20}`, map[string]string{"percentile.0": "2", "bca": "null", "undefined.bca": "jackknife values are all equal", "n": "20"}},
	{"bootstrap", `{"x": [1, 2, 3, 9], "statistic": "median", "seed": 7, "level": 0.9}`, map[string]string{"estimate": "2.5", "seed.seed": "7", "generator": "PCG-DXSM (Go math/rand/v2 NewPCG)", "n": "10000"}},
	{"bootstrap-two", `{"x1": [1, 2, 3, 9], "x0": [0, 1, 1], "statistic": "cohen_d", "resamples": 50}`, map[string]string{"level": "0.95"}},
	{"bootstrap-pairs", `{"before": [1, 2, 3], "after": [0, 0, 2], "resamples": 50}`, map[string]string{"estimate": "-1.333333"}},
	{"bootstrap-clusters", `{"values": [1, 2, 3, 4], "layers": [0, 0, 1, 1], "labels": [1, 0, 1, 0], "resamples": 50}`, map[string]string{"estimate": "-1"}},
	{"bootstrap-clusters", `{"values": [1, 2, 3, 4], "layers": [0, 0, 1, 1], "x": [2, 3, 5, 4], "statistic": "demean_rank", "resamples": 50}`, map[string]string{"estimate": "0"}},
	{"head-set", `{"observed": 1, "controls": [0.05, 0, 0, 0.05, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}`, map[string]string{"p": "0.05", "at_least": "0"}},
	{"head-set", `{"observed": 1, "controls": [0, null]}`, map[string]string{"p": "null"}},
	{"head-sets", `{"baseline": [1, 1, 1], "edited": [0, 0, 1], "controls": [[1, 1, 1], [1, 1, 0], [1, 0, 1]], "possible": 3, "resamples": 100}`,
		map[string]string{"p_head_set": "0.25", "exact": "true", "p_mcnemar": "0.5", "undefined.se_p_head_set": "every arrangement was enumerated", "mixed.n": "100"}},
	{"tost-means", `{"d": [-0.1, 0.1, 0.2, -0.2, 0], "margin": 0.5}`, map[string]string{"equivalent": "true", "difference": "0"}},
	{"tost-proportions", `{"b": 0, "c": 0, "n": 100, "margin": 0.05}`, map[string]string{"equivalent": "true", "interval.1": "0.02634"}},
	{"mde-means", `{"n": 34, "power": 0.8077775}`, map[string]string{"detectable": "0.5"}},
	{"mde-proportions", `{"n": 6}`, map[string]string{"detectable": "0.9634925"}},
	{"mde-proportions", `{"n": 5}`, map[string]string{"detectable": "null", "undefined.detectable": "no effect, however large, reaches that power"}},
	{"frequency-signature", `{"centers": [0.1, 0.3], "recall": [0.5, 1], "baseline": 1}`, map[string]string{"freq_com": "0.1", "freq_width": "0"}},
	{"windows", `{"head_dim": 64}`, map[string]string{"width": "8", "starts.7": "56"}},
	{"specificity", `{"ppl_base": 2, "ppl_low": 2.02, "acc_base": 1, "acc_low": 0.28}`, map[string]string{"ratio": "0.01388889", "published_verdict": "retrieval-specific"}},
	{"coverage", `{"n_detected": 45, "coverage": 0.5}`, map[string]string{"n_heads": "22"}},
	{"top-k", `{"scores": [0.5, 0.1, 0.5, 0.9], "threshold": 0.1, "k": 3}`, map[string]string{"top.0": "3", "top.1": "0", "top.2": "2"}},
	{"rouge1", `{"reference": "running runs", "prediction": "run ran", "stem": true}`, map[string]string{"recall": "0.5"}},
}

// runStats is `headscope stats ARGS` with that input.
func runStats(input string, args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	a := &app{in: strings.NewReader(input), out: &stdout, err: &stderr, getenv: func(string) string { return "" }}
	code = a.run(context.Background(), append([]string{"stats"}, args...))
	return stdout.String(), stderr.String(), code
}

func TestStats(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range statsCases {
		tried[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := runStats(c.input, c.name)
			if code != 0 {
				t.Fatalf("code %d: %s", code, errs)
			}
			if err := checkObject([]byte(out)); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			var result any
			if err := json.Unmarshal([]byte(out), &result); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for path, want := range c.want {
				if got := lookUp(result, path); !sameText(got, want) {
					t.Errorf("%s: got %s, want %s in %s", path, got, want, out)
				}
			}
			checkSchema(t, c.name, c.input)
		})
	}
	list, _, code := runStats("")
	for _, s := range statistics() {
		if !tried[s.name] {
			t.Errorf("%s: no case", s.name)
		}
		if !strings.Contains(list, "\n"+s.name+" ") && !strings.HasPrefix(list, s.name+" ") {
			t.Errorf("%s is not listed", s.name)
		}
		for _, f := range statsFields(s.input) {
			if f.name == "" || f.is == "" {
				t.Errorf("%s: field %+v has no name or no description", s.name, f)
			}
		}
	}
	if again, _, _ := runStats("", "--list"); code != 0 || again != list {
		t.Errorf("code %d; --list prints something else", code)
	}
}

// checkSchema holds an input to the schema, and the schema against a field too many and the input's first field gone.
func checkSchema(t *testing.T, name, input string) {
	t.Helper()
	out, _, _ := runStats("", name, "--schema")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("the schema refuses %s: %v", input, err)
	}
	instance.(map[string]any)["more"] = true
	if schema.Validate(instance) == nil {
		t.Error("the schema takes an unknown field")
	}
	if schema.Validate(map[string]any{}) == nil {
		t.Error("the schema takes an empty input")
	}
}

// lookUp prints what lies at a dotted path.
func lookUp(v any, path string) string {
	for path != "" {
		key, rest, _ := strings.Cut(path, ".")
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(x) {
				return "nothing"
			}
			v = x[i]
		default:
			return "nothing"
		}
		path = rest
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// sameText compares numbers to the digits that are given.
func sameText(got, want string) bool {
	g, err := strconv.ParseFloat(got, 64)
	w, err2 := strconv.ParseFloat(want, 64)
	if err != nil || err2 != nil {
		return got == want
	}
	digits := len(strings.TrimLeft(strings.ReplaceAll(strings.TrimPrefix(want, "-"), ".", ""), "0"))
	return math.Abs(g-w) <= 1e-9 || strings.Contains(want, ".") && math.Abs(g-w) <= 0.6*math.Pow(10, math.Floor(math.Log10(math.Abs(w)))+1-float64(digits))
}

func TestStatsRefuses(t *testing.T) {
	for _, c := range []struct{ name, input, err, hint string }{
		{"pearson", ``, "no input on stdin", "--schema"},
		{"pearson", `{"x": [1, 2]}`, `field "y" is missing: want a list of numbers`, "--schema"},
		{"pearson", `{"x": [1, 2], "y": [1]}`, "slice lengths differ: 2 and 1", "--schema"},
		{"pearson", `{"x": [1, NaN], "y": [1, 2]}`, "invalid character 'N'", "write null for a missing value"},
		{"pearson", `{"x": [1, 1e999], "y": [1, 2]}`, `field "x": got number 1e999`, "--schema"},
		{"pearson", `{"x": [1, 2], "y": [1, 2], "z": 3}`, `unknown field "z"`, "--schema"},
		{"pearson", `{"x": [1, 2], "x": [1, 2], "y": [1, 2]}`, `key "x" is there twice`, "--schema"},
		{"pearson", `{"X": [1, 2], "y": [1, 2]}`, `unknown field "X"`, "--schema"},
		{"pearson", `{"x": [1, "2"], "y": [1, 2]}`, `field "x": got string, want a list of numbers`, "--schema"},
		{"pearson", `{"x": null, "y": [1, 2]}`, `field "x": got null`, "--schema"},
		{"pearson", `[1, 2]`, "not a JSON object", "--schema"},
		{"pearson", `{"x": [1, 2], "y": [1, 2]} {}`, "something follows the object", "--schema"},
		{"pearson", `{"x": [1, 2], "y": [1, 2]`, "unexpected EOF", "--schema"},
		{"mcnemar", `{"b": 2.5, "c": 0}`, `field "b": got number 2.5, want an integer`, "--schema"},
		{"mcnemar", `{"b": -1, "c": 0}`, `field "b": got -1, want 0 to 10000000`, "--schema"},
		{"wilson", `{"k": 3, "n": 2}`, "3 successes of 2", "--schema"},
		{"wilson", `{"k": 1, "n": 2, "level": 95}`, "confidence level 95 is not between 0 and 1", "--schema"},
		{"wilson", `{"k": 1, "n": 1000000000000}`, `field "n": got 1000000000000, want 0 to 100000000`, "--schema"},
		{"holm", `{"p": [0.5], "alpha": 2}`, "alpha 2 is not between 0 and 1", "--schema"},
		{"holm", `{"p": [1.5]}`, "p value 1.5 is not between 0 and 1", "--schema"},
		{"bootstrap", `{"x": [1, 2], "statistic": "mode"}`, `statistic "mode": want mean or median`, "--schema"},
		{"bootstrap", `{"x": [1, 2], "resamples": 0}`, `field "resamples": got 0, want 1 to 10000000`, "--schema"},
		{"bootstrap-clusters", `{"values": [1, 2], "layers": [0]}`, "1 layers of 2 values", "--schema"},
		{"layer-permutation", `{"values": [1, 2], "layers": [0, 0], "labels": [2, 0]}`, `field "labels": got 2, want true, false, 1 or 0`, "--schema"},
		{"persn", `{}`, `unknown statistic "persn"`, `did you mean "pearson"`},
	} {
		out, errs, code := runStats(c.input, c.name)
		lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
		if code != exitUsage || out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") || !strings.Contains(lines[0], c.err) ||
			!strings.HasPrefix(lines[1], "hint: ") || !strings.Contains(lines[1], c.hint) {
			t.Errorf("%s < %s: code %d, stdout %q, stderr %q; want error %q, hint %q", c.name, c.input, code, out, errs, c.err, c.hint)
		}
	}
	for _, args := range [][]string{{"--schema"}, {"pearson", "spearman"}, {"--list", "pearson"}} {
		if _, errs, code := runStats("{}", args...); code != exitUsage || strings.Count(errs, "\n") != 2 {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
}

// FuzzStats: any input to any statistic ends in JSON or in a usage error.
func FuzzStats(f *testing.F) {
	for _, c := range statsCases {
		f.Add(c.name, c.input)
	}
	f.Fuzz(func(t *testing.T, name, input string) {
		if len(input) > 300 || strings.Contains(input, "00000") || strings.ContainsAny(input, "eE") && strings.Contains(input, "draws") {
			return // many resamples are slow, and nothing else
		}
		s, err := findStat(name)
		if err != nil {
			return
		}
		out, errs, code := runStats(input, s.name)
		if code == 0 && !json.Valid([]byte(out)) || code != 0 && code != exitUsage {
			t.Errorf("%s < %s: code %d, %s%s", name, input, code, out, errs)
		}
	})
}

func TestStatsInputTooLong(t *testing.T) {
	a := &app{in: io.MultiReader(strings.NewReader("{"), &spaces{mostStatsInput}), out: io.Discard, err: io.Discard}
	if code := a.run(context.Background(), []string{"stats", "pearson"}); code != exitUsage {
		t.Errorf("code %d", code)
	}
}

// spaces are n of them.
type spaces struct{ n int }

func (s *spaces) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	n := min(s.n, len(p))
	for i := range n {
		p[i] = ' '
	}
	s.n -= n
	return n, nil
}
