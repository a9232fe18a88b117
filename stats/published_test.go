package stats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// publishedItem is one number of published.json: what it is, where its inputs lie, its value.
type publishedItem struct {
	Item   string          `json:"item"`
	Inputs []string        `json:"inputs"`
	Value  json.RawMessage `json:"value"`
	BC     []int           `json:"b_c"`
	Rows   []int           `json:"rows"`
	Family string          `json:"family"`
}

// publishedDoc is one file of published-profiles.
type publishedDoc struct {
	t    *testing.T
	name string
	root string
	v    any
}

// plainItems are differences, counts and shares that need no function of this package.
var plainItems = []string{
	"heads_at_threshold", "head_list_equals", "copy_heads_at_threshold", "copy_head_list_equals", "counts_argmax_copy", "zero_fraction",
	"below_threshold_fraction", "n_active_heads", "score_mean_active", "top5_mass_share", "layer_com", "early_frac", "mid_frac", "late_frac",
	"kv_active_groups", "kv_full_group", "frequency_effect", "b_minus_c_over_n", "niah_rel_drop", "perplexity_ratio", "retrieval_head_specificity",
	"knockout_drop", "knockout_random_drop", "dissociation", "scalar_zero_fraction", "scalar_layer_com", "n_retrieval_equals", "lost_",
}

// TestPublished recomputes the numbers of published head profiles: 1e-9 relative, 1e-6 for p values far in a tail. Folders of
// HEADSCOPE_GOLDEN with a published.json are run too if the profiles lie in published-profiles beside or below them.
func TestPublished(t *testing.T) {
	for i, dir := range goldenDirs(t) {
		if _, err := os.Stat(filepath.Join(dir, "published.json")); err != nil && i > 0 {
			continue
		}
		var roots []string
		for _, r := range []string{filepath.Join(dir, "..", "published-profiles"), filepath.Join(dir, "published-profiles")} {
			if _, err := os.Stat(r); err == nil {
				roots = append(roots, r)
			}
		}
		if len(roots) == 0 && i > 0 {
			t.Logf("%s: no profiles beside published.json", dir)
			continue
		}
		compared, plain := published(t, filepath.Join(dir, "published.json"), roots[0])
		t.Logf("%s: %d numbers recomputed, %d are plain arithmetic", dir, compared, plain)
		if i == 0 && compared != 767 {
			t.Errorf("recomputed %d numbers, want 767", compared)
		}
	}
}

func published(t *testing.T, file, root string) (compared, plain int) {
	t.Helper()
	var doc struct {
		Files []struct {
			File  string
			Items []publishedItem
		}
	}
	readJSON(t, file, &doc)
	for _, f := range doc.Files {
		if len(f.Items) == 0 {
			continue
		}
		d := openPublished(t, root, f.File)
		for _, item := range f.Items {
			if slices.ContainsFunc(plainItems, func(p string) bool { return strings.HasPrefix(item.Item, p) }) {
				plain++
				continue
			}
			compared++
			d.compare(item)
		}
	}
	return compared, plain
}

func (d *publishedDoc) compare(item publishedItem) {
	d.t.Helper()
	got, tol := d.compute(item)
	if item.Value[0] == '{' {
		return // compared there
	}
	if item.Value[0] != '[' {
		item.Value = slices.Concat([]byte("["), item.Value, []byte("]"))
	}
	var want []*float64
	if err := json.Unmarshal(item.Value, &want); err != nil {
		d.t.Fatalf("%s: %s: %v", d.name, item.Item, err)
	}
	if len(got) != len(want) {
		d.t.Fatalf("%s: %s: got %v, want %s", d.name, item.Item, got, item.Value)
	}
	for i, w := range want {
		x, ok := got[i].Get()
		if ok != (w != nil) || ok && !(math.Abs(x-*w) <= tol*math.Abs(*w)+1e-12) {
			d.t.Errorf("%s: %s[%d]: got %v, want %s", d.name, item.Item, i, got[i], item.Value)
		}
	}
}

func openPublished(t *testing.T, root, name string) *publishedDoc {
	t.Helper()
	from := root
	if own, ok := strings.CutPrefix(name, "shared:"); ok {
		from, name = filepath.Join("testdata", "published-profiles"), own
	}
	b, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	d := &publishedDoc{t: t, name: name, root: root}
	if err := json.Unmarshal(bytes.ReplaceAll(b, []byte("NaN"), []byte("null")), &d.v); err != nil { // Python writes NaN
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// at returns what lies at a dotted path; * is every element.
func (d *publishedDoc) at(path string) any {
	d.t.Helper()
	v, rest := d.v, path
	if name, p, ok := strings.Cut(path, ".json:"); ok {
		other := openPublished(d.t, d.root, name+".json")
		v, rest = other.v, p
	}
	return walk(v, rest)
}

func walk(v any, path string) any {
	for path != "" {
		if m, ok := v.(map[string]any); ok { // keys may have dots: 0.3.recall
			found := false
			for k, e := range m {
				if path == k || strings.HasPrefix(path, k+".") {
					v, path, found = e, strings.TrimPrefix(strings.TrimPrefix(path, k), "."), true
					break
				}
			}
			if !found {
				panic("no key " + path)
			}
			continue
		}
		list := v.([]any)
		first, rest, _ := strings.Cut(path, ".")
		if first == "*" {
			out := make([]any, len(list))
			for i, e := range list {
				if m, ok := e.(map[string]any); ok && m[rest] == nil {
					continue // a row without that key
				}
				out[i] = walk(e, rest)
			}
			return out
		}
		i, err := strconv.Atoi(first)
		if err != nil {
			panic(err)
		}
		v, path = list[i], rest
	}
	return v
}

// numbers flattens lists and matrices; null is NaN.
func (d *publishedDoc) numbers(path string) []float64 {
	d.t.Helper()
	var out []float64
	var add func(any)
	add = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				add(e)
			}
		case float64:
			out = append(out, v)
		case nil:
			out = append(out, math.NaN())
		default:
			d.t.Fatalf("%s: %s: %T", d.name, path, v)
		}
	}
	add(d.at(path))
	return out
}

func (d *publishedDoc) number(path string) float64 { d.t.Helper(); return d.numbers(path)[0] }

func (d *publishedDoc) heads(path string) (out [][2]float64) {
	d.t.Helper()
	flat := d.numbers(path)
	for i := 0; i+1 < len(flat); i += 2 {
		out = append(out, [2]float64{flat[i], flat[i+1]})
	}
	return out
}

// without are the rows in which both are there.
func without(x, y []float64, labels []string) (a, b []float64, l []string) {
	for i := range x {
		if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
			a, b = append(a, x[i]), append(b, y[i])
			if labels != nil {
				l = append(l, labels[i])
			}
		}
	}
	return a, b, l
}

func (d *publishedDoc) compute(item publishedItem) ([]Value, float64) {
	d.t.Helper()
	in, name := item.Inputs, item.Item
	is := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch {
	case is("gini_copy"):
		return []Value{Gini(d.numbers("copy_scores"))}, 1e-9
	case is("gini"), is("scalar_gini"):
		return []Value{Gini(d.numbers("argmax_scores"))}, 1e-9
	case is("jaccard_argmax_copy"), is("scalar_detector_jaccard"):
		return numbers([]float64{Jaccard(d.heads("argmax_heads"), d.heads("copy_heads"))}), 1e-9
	case is("jaccard_"):
		return numbers([]float64{Jaccard(d.heads(in[0]), d.heads(in[1]))}), 1e-9
	case is("argmax_jaccard_"), is("copy_jaccard_"):
		key, _, _ := strings.Cut(name, "_")
		return numbers([]float64{Jaccard(d.heads(in[0]+":"+key+"_heads"), d.heads(in[1]+":"+key+"_heads"))}), 1e-9
	case is("argmax_spearman_"), is("copy_spearman_"):
		key, _, _ := strings.Cut(name, "_")
		return []Value{Spearman(d.numbers(in[0]+":"+key+"_scores"), d.numbers(in[1]+":"+key+"_scores")).R}, 1e-9
	case is("partial_spearman_argmax_copy_by_layer"):
		return d.partial(item)
	case is("partial_p_from_rho"):
		rho, n := d.number(in[0]), d.number(in[1])+d.number(in[2])
		return []Value{CorrelationP(rho, int(n)-2)}, 1e-6
	case name == "spearman_p":
		return []Value{Spearman(d.numbers("argmax_scores"), d.numbers("copy_scores")).P}, 1e-6
	case is("spearman_p_"):
		x, y, _ := without(d.numbers(in[0]), d.numbers(in[1]), nil)
		return []Value{Spearman(x, y).P}, 1e-7
	case is("spearman_"):
		x, y, _ := without(d.numbers(in[0]), d.numbers(in[1]), nil)
		return []Value{Spearman(x, y).R}, 1e-9
	case is("within_family_"):
		var families []string
		for _, f := range d.at(in[2]).([]any) {
			families = append(families, fmt.Sprint(f))
		}
		x, y, names := without(d.numbers(in[0]), d.numbers(in[1]), families)
		ids := make([]int, len(names))
		for i, n := range names {
			ids[i] = slices.Index(names, n)
		}
		return []Value{SpearmanByLayer(x, y, ids).DemeanRankFloat}, 1e-9
	}
	return d.computeMore(item)
}

func (d *publishedDoc) computeMore(item publishedItem) ([]Value, float64) {
	d.t.Helper()
	in, is := item.Inputs, func(prefix string) bool { return strings.HasPrefix(item.Item, prefix) }
	switch {
	case is("mcnemar_"):
		return numbers([]float64{McNemar(item.BC[0], item.BC[1]).P}), 1e-9
	case is("wilson_low_freq"):
		n := d.number(in[1])
		lo, hi := Wilson(int(math.RoundToEven(d.number(in[0])*n)), int(n), 0.95).Ends()
		return []Value{lo, hi}, 1e-9
	case is("freq_com"):
		return []Value{FrequencyCentre(d.numbers(in[0]), d.numbers(in[1]), d.number(in[2])).Centre}, 1e-9
	case is("freq_width"):
		return []Value{FrequencyCentre(d.numbers(in[0]), d.numbers(in[1]), d.number(in[2])).Width}, 1e-9
	case is("specificity_ratio"):
		return []Value{PerplexitySpecificity(d.number(in[0]), d.number(in[1]), d.number(in[2]), d.number(in[3])).Ratio}, 1e-9
	case item.Item == "n_patched":
		return numbers([]float64{float64(CoverageCount(len(d.heads("argmax_heads")), d.number(in[1]), 30))}), 0
	case is("n_patched_"):
		return numbers([]float64{float64(CoverageCount(len(d.heads(in[0])), d.number(in[1]), 30))}), 0
	case is("ruler_mean"):
		return []Value{Describe(d.numbers(in[0])).Mean}, 1e-9
	case is("ruler_sd"):
		return []Value{Describe(d.numbers(in[0])).SD}, 1e-9
	case is("niah_overall"):
		return []Value{Describe(d.numbers(in[0])).Mean}, 1e-9
	case is("bh_"):
		return d.families(item), 1e-9
	}
	d.t.Fatalf("%s: nothing recomputes %s", d.name, item.Item)
	return nil, 0
}

func (d *publishedDoc) partial(item publishedItem) ([]Value, float64) {
	d.t.Helper()
	rows := d.at("argmax_scores").([]any)
	flat := d.numbers("argmax_scores")
	layers := make([]int, len(flat))
	for i := range layers {
		layers[i] = i / (len(flat) / len(rows))
	}
	r := SpearmanByLayer(rationals(flat, 10000), rationals(d.numbers("copy_scores"), 100000), layers)
	var want map[string]*float64
	if err := json.Unmarshal(item.Value, &want); err != nil {
		d.t.Fatal(err)
	}
	for key, got := range map[string]Value{"rho_demean_rank": r.DemeanRank, "rho_rank_demean": r.RankDemean} {
		if x, ok := got.Get(); !ok || math.Abs(x-*want[key]) > 1e-9 {
			d.t.Errorf("%s: %s: got %v, want %v", d.name, key, got, *want[key])
		}
	}
	return nil, 0
}

// rationals undoes the rounding of hits/trials to float32 as the reference does: the nearest fraction with a denominator up to most.
func rationals(x []float64, most int64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		exact := new(big.Rat).SetFloat64(v)
		limit := big.NewInt(most)
		if exact.Denom().Cmp(limit) <= 0 {
			out[i] = v
			continue
		}
		p0, q0, p1, q1 := big.NewInt(0), big.NewInt(1), big.NewInt(1), big.NewInt(0) // the convergents of the continued fraction
		n, d := new(big.Int).Set(exact.Num()), new(big.Int).Set(exact.Denom())
		step := func(a, b, k *big.Int) *big.Int { return new(big.Int).Add(a, new(big.Int).Mul(k, b)) }
		for {
			a, rest := new(big.Int).QuoRem(n, d, new(big.Int))
			q2 := step(q0, q1, a)
			if q2.Cmp(limit) > 0 {
				break
			}
			p0, q0, p1, q1 = p1, q1, step(p0, p1, a), q2
			n, d = d, rest
		}
		k := new(big.Int).Quo(new(big.Int).Sub(limit, q0), q1)
		best, other := new(big.Rat).SetFrac(p1, q1), new(big.Rat).SetFrac(step(p0, p1, k), step(q0, q1, k))
		distance := func(r *big.Rat) *big.Rat { return r.Abs(new(big.Rat).Sub(r, exact)) }
		if distance(new(big.Rat).Set(other)).Cmp(distance(new(big.Rat).Set(best))) < 0 {
			best = other
		}
		out[i], _ = best.Float64()
	}
	return out
}

// families adjusts the p values of one family over all rows, or of one a target.
func (d *publishedDoc) families(item publishedItem) []Value {
	d.t.Helper()
	section := strings.TrimSuffix(item.Inputs[0], ".*.p_value")
	p := d.numbers(item.Inputs[0])
	targets := d.at(section + ".*.target").([]any)
	out := make([]Value, len(p))
	for _, target := range targets {
		family := slices.Repeat([]float64{math.NaN()}, len(p))
		for i := range p {
			if item.Family == "one family over all rows" || targets[i] == target {
				family[i] = p[i]
			}
		}
		for i, v := range BenjaminiHochberg(family).P {
			if _, ok := v.Get(); ok {
				out[i] = v
			}
		}
	}
	var chosen []Value
	for _, i := range item.Rows {
		chosen = append(chosen, out[i])
	}
	return chosen
}
