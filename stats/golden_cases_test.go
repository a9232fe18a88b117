package stats

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

func goldenMcNemar(c *goldenCase) {
	r := McNemar(in[int](c, "b"), in[int](c, "c"))
	c.checkNumber("p_exact", r.P)
	c.checkNumber("p_mid", r.MidP)
	c.checkNumber("p_mid_doubled", r.MidPDoubled)
	c.checkNumber("log10_p_exact", r.Log10P)
}

func goldenEffects(c *goldenCase) {
	var e Effects
	switch {
	case c.has("layers"):
		e = LayerDemeanedD(c.floats("values"), c.ints("layers"), c.bools("labels"))
	case c.has("labels"):
		e = CohenD(byLabel(c.floats("values"), c.bools("labels")))
	default:
		e = CohenD(c.floats("x1"), c.floats("x0"))
	}
	if c.has("layers") && c.AbsTol == 0 {
		c.AbsTol = 8 * epsilon * largestAbs(c.floats("values")) // a mean difference that is 0 but for rounding
	}
	c.check("mean_diff", e.MeanDiff)
	c.check("sd_pooled", e.SDPooled)
	c.check("cohen_d", e.CohenD)
	c.check("J_exact", e.JExact)
	c.check("J_approx", e.JApprox)
	c.check("hedges_g_exact", e.HedgesG)
	c.check("hedges_g_approx", e.HedgesApprox)
}

func goldenCorrelation(c *goldenCase) {
	x, y := c.floats("x"), c.floats("y")
	p, s, k := Pearson(x, y), Spearman(x, y), Kendall(x, y)
	c.check("pearson_r", p.R)
	c.check("pearson_p", p.P)
	c.check("spearman_rho", s.R)
	c.check("spearman_p", s.P)
	c.check("kendall_tau_b", k.TauB)
	c.check("kendall_p_asymptotic", k.PAsymptotic)
	c.check("kendall_p_exact", k.PExact)
}

func goldenPartial(c *goldenCase) {
	r := SpearmanByLayer(c.floats("x"), c.floats("y"), c.ints("layers"))
	c.check("rho_demean_rank", r.DemeanRank)
	c.check("rho_demean_rank_pandas_route", r.DemeanRank) // abs_tol is the distance between the routes
	abs := c.AbsTol
	c.AbsTol = 0
	c.check("rho_demean_rank_numpy_route", r.DemeanRankFloat)
	c.AbsTol = abs
	c.check("rho_rank_demean", r.RankDemean)
	c.check("p_demean_rank_df_n_minus_2", r.PDemeanRank)
	c.check("p_demean_rank_df_n_minus_L_minus_1", r.PDemeanRankLayers)
	c.check("p_rank_demean_df_n_minus_2", r.PRankDemean)
	c.check("p_rank_demean_df_n_minus_L_minus_1", r.PRankDemeanLayers)
}

func goldenMultiple(c *goldenCase) {
	p := c.floats("p")
	holm, bh := Holm(p), BenjaminiHochberg(p)
	c.checkList("holm_adjusted", holm.P)
	c.checkList("bh_adjusted", bh.P)
	same(c, "holm_reject_at_0.05", holm.Reject(0.05), equalSlices[bool])
	same(c, "bh_reject_at_0.05", bh.Reject(0.05), equalSlices[bool])
}

func goldenProportions(c *goldenCase) {
	k, n := in[int](c, "k"), in[int](c, "n")
	level := 1 - in[float64](c, "alpha")
	w, cp := Wilson(k, n, level), ClopperPearson(k, n, level)
	c.checkInterval("wilson", w)
	c.checkInterval("clopper_pearson", cp)
	if n > 0 && (k == 0 && (w.Lo != 0 || cp.Lo != 0) || k == n && (w.Hi != 1 || cp.Hi != 1)) {
		c.t.Errorf("ends not exact: %v %v", w, cp)
	}
}

func goldenVariance(c *goldenCase) {
	switch {
	case c.has("F"):
		df := in[[2]int](c, "df")
		f := FFromRatio(in[float64](c, "F"), df[0], df[1])
		c.check("F_p_greater", f.PGreater)
		c.check("F_p_two_sided", f.PTwoSided)
		return
	case c.has("mean1"):
		a := Summary{in[float64](c, "mean1"), in[float64](c, "sd1"), in[int](c, "n1")}
		b := Summary{in[float64](c, "mean2"), in[float64](c, "sd2"), in[int](c, "n2")}
		c.checkWelch(WelchSummary(a, b))
		return
	}
	var groups [][]float64
	if c.has("labels") {
		x1, x0 := byLabel(c.floats("values"), c.bools("labels"))
		groups = [][]float64{x1, x0}
	} else {
		for _, raw := range in[[]json.RawMessage](c, "groups") {
			groups = append(groups, c.list(raw, "groups"))
		}
	}
	if len(groups) == 2 {
		f := FTest(groups[0], groups[1])
		c.check("F", f.F)
		c.check("F_p_two_sided", f.PTwoSided)
		c.check("F_p_greater", f.PGreater)
		same(c, "F_df", f.DF, equal[[2]int])
		c.checkWelch(Welch(groups[0], groups[1]))
	}
	for name, test := range map[string]Test{
		"levene_mean": Levene(groups...), "levene_median": BrownForsythe(groups...), "fligner": FlignerKilleen(groups...), "bartlett": Bartlett(groups...),
	} {
		c.check(name+"_stat", test.Stat)
		c.check(name+"_p", test.P)
	}
	o := OBrien(groups...)
	c.check("obrien_F", o.Stat)
	c.check("obrien_p", o.P)
	if c.wants("obrien_transformed") {
		want := decode[[][]float64](c.t, c.Out, "obrien_transformed")
		for i, got := range OBrienTransform(groups...) {
			for j := range got {
				c.near("obrien_transformed", got[j], want[i][j])
			}
		}
	}
}

func (c *goldenCase) checkWelch(w WelchT) {
	c.t.Helper()
	c.check("welch_t", w.T)
	c.check("welch_df", w.DF)
	c.check("welch_p", w.P)
}

// testSampling is for tests that are exact in every reference case.
var testSampling = Sampling{B: 10, Source: Source{Seed: 1}}

func goldenExact(c *goldenCase) {
	switch c.kind() {
	case "sign_flip":
		r := SignFlip(c.floats("d"), testSampling)
		c.check("mean", r.T)
		c.checkPermutation(r, "n_perm")
		c.check("p_two_sided", r.PAbs)
		c.checkNumber("count_two_sided", float64(r.CountAbs))
	case "log_variance_ratio":
		r := LogVarianceRatio(c.floats("x"), c.floats("y"), testSampling)
		c.check("log_vr", r.T)
		c.checkPermutation(r.Permutation, "n_splits")
		c.check("p_two_sided", r.PAbs)
		c.checkNumber("count_two_sided", float64(r.CountAbs))
		c.checkNumber("n_splits_with_zero_variance", float64(r.ZeroVariance))
	case "mean_difference":
		r := MeanDifference(c.floats("x"), c.floats("y"), testSampling)
		c.check("mean_diff", r.T)
		c.checkPermutation(r, "n_splits")
		c.check("p_abs", r.PAbs)
		c.check("p_twice_min", r.PTwiceMin)
	default:
		c.t.Fatalf("unknown kind %q", c.kind())
	}
}

func (c *goldenCase) checkPermutation(r Permutation, n string) {
	c.t.Helper()
	c.check("p_greater", r.PGreater)
	c.check("p_less", r.PLess)
	c.check(n, r.Draws.Arrangements)
	if _, ok := r.T.Get(); ok && !r.Draws.Exact {
		c.t.Error("not enumerated")
	}
}

func goldenBootstrap(c *goldenCase) {
	statistic := map[string]Statistic{
		"mean": MeanOf, "median": MedianOf, "mean_diff": MeanDifferenceOf, "cohen_d": CohenDOf, "mean(b) - mean(a)": MeanOf,
	}[in[string](c, "statistic")]
	if statistic == nil {
		c.t.Fatalf("unknown statistic %s", c.In["statistic"])
	}
	var samples [][]float64
	var indices [][][]int
	switch c.kind() {
	case "one_sample":
		samples, indices = [][]float64{c.floats("x")}, [][][]int{c.indices("indices")}
	case "two_sample":
		samples, indices = [][]float64{c.floats("x1"), c.floats("x0")}, [][][]int{c.indices("indices1"), c.indices("indices0")}
	case "paired_difference":
		samples, indices = [][]float64{differences(c.floats("b"), c.floats("a"))}, [][][]int{c.indices("indices")}
	default:
		c.t.Fatalf("unknown kind %q", c.kind())
	}
	r := Resampling{N: len(indices[0]), Level: in[float64](c, "confidence")}
	b := bootstrap(samples, statistic, r, Source{}, func(b, sample int, to []int) { copy(to, indices[sample][b]) })
	c.checkBootstrap(b)
	if c.kind() == "paired_difference" { // the published form: a percentile interval of the mean
		reps := resampledMeans(samples[0], r.N, func(b, j int) int { return indices[0][b][j] })
		c.checkInterval("percentile", percentile(reps, r.Level))
	}
}

// indices reads resamples; {"same_as": ID} takes those of another case.
func (c *goldenCase) indices(key string) [][]int {
	c.t.Helper()
	if c.In[key][0] == '{' {
		at := in[struct {
			SameAs string `json:"same_as"`
		}](c, key)
		return decode[[][]int](c.t, c.others[at.SameAs].In, key)
	}
	return in[[][]int](c, key)
}

func (c *goldenCase) checkBootstrap(b BootstrapResult) {
	c.t.Helper()
	c.check("estimate", b.Estimate)
	c.check("se", b.SE)
	c.checkInterval("percentile", b.Percentile)
	c.checkInterval("bca", b.BCa)
	c.check("z0", b.Z0)
	c.check("a", b.A)
	c.check("alpha1", b.Alpha1)
	c.check("alpha2", b.Alpha2)
	c.checkList("replicates", b.Replicates())
	c.checkNumber("n_undefined_replicates", float64(b.Undefined))
}

func goldenCluster(c *goldenCase) {
	v, layers := c.floats("values"), c.ints("layers")
	merged := c.has("repeated_layer") && in[string](c, "repeated_layer") == "merged"
	var stat ClusterStatistic
	switch kind := in[string](c, "statistic"); kind {
	case "mean_diff", "cohen_d":
		stat = LabelledEffect(v, c.bools("labels"), kind == "cohen_d")
	case "rank_demean", "demean_rank":
		partial := LayerSpearman(c.floats("x"), v, kind == "demean_rank")
		stat = func(members, ids []int) Value {
			if merged {
				ids = make([]int, len(members))
				for i, m := range members {
					ids[i] = layers[m]
				}
			}
			return partial(members, ids)
		}
	default:
		c.t.Fatalf("unknown statistic %q", kind)
	}
	draws := in[[][]int](c, "draws")
	r := Resampling{N: len(draws), Level: in[float64](c, "confidence")}
	groups := groupsOf(layers)
	c.checkBootstrap(clusterBootstrap(groups, stat, r, Source{}, func(b int, drawn []int) { copy(drawn, draws[b]) }))
}

func goldenLayers(c *goldenCase) {
	switch c.kind() {
	case "stratified", "stratified_moments":
		r := PermuteLayers(c.floats("values"), c.ints("layers"), c.bools("labels"), testSampling)
		c.checkMoments(r)
		c.check("n_assignments", r.Draws.Arrangements)
		c.checkNumber("count_legacy", float64(r.CountAbs))
		c.check("p_legacy_exact", r.Legacy())
		c.checkNumber("count_centred", float64(r.CountCentred))
		c.check("p_centred_exact", r.PCentred)
		c.check("p_greater_exact", r.PGreater)
		c.check("p_less_exact", r.PLess)
		c.check("p_twice_min_exact", r.PTwiceMin)
		if _, ok := r.T.Get(); ok && c.kind() == "stratified" && !r.Draws.Exact {
			c.t.Error("not enumerated")
		}
	case "stratified_monte_carlo":
		c.checkMonteCarlo()
	case "block_permutation":
		layers := c.ints("layers")
		r := PermuteGroups(c.floats("values"), make([]int, len(layers)), layers, c.bools("labels"), testSampling)
		c.check("T", r.T)
		c.check("null_mean", r.NullMean)
		c.check("n_permutations", r.Draws.Arrangements)
		c.check("p_abs", r.PAbs)
		c.check("p_centred", r.PCentred)
		c.check("p_greater", r.PGreater)
		c.check("p_less", r.PLess)
		c.check("p_twice_min", r.PTwiceMin)
	case "cluster_labels":
		r := PermuteClusters(c.floats("values"), c.ints("layers"), c.ints("treated_layers"), testSampling)
		c.check("n_assignments", r.Pooled.Draws.Arrangements)
		c.check("T_pooled", r.Pooled.T)
		c.check("p_abs_pooled", r.Pooled.PAbs)
		c.check("T_cluster_means", r.Means.T)
		c.check("p_abs_cluster_means", r.Means.PAbs)
		c.check("p_greater_cluster_means", r.Means.PGreater)
	default:
		c.t.Fatalf("unknown kind %q", c.kind())
	}
}

func (c *goldenCase) checkMoments(r LayerPermutation) {
	c.t.Helper()
	c.check("T", r.T)
	c.check("E0", r.NullMean)
	c.check("sd", r.NullSD)
	sd, ok := r.NullSD.Get()
	variance := Number(sd * sd)
	if !ok {
		variance = r.NullSD
	}
	c.check("var", variance)
	c.check("z", r.Z)
	c.checkNumber("n1", float64(r.N1))
	c.check("p_normal_centred", r.PNormal)
	c.check("p_normal_legacy", r.PNormalLegacy)
}

// checkMonteCarlo compares two samples of arrangements: p within four joint standard errors.
func (c *goldenCase) checkMonteCarlo() {
	s := Sampling{B: in[int](c, "B"), Source: Source{Seed: 20, Stream: 7}}
	r := PermuteLayers(c.floats("values"), c.ints("layers"), c.bools("labels"), s)
	if r.Draws.Exact || r.Draws.N != s.B || r.Draws.Generator != Generator || *r.Draws.Seed != s.Source {
		c.t.Errorf("draws %+v, want %d of %s", r.Draws, s.B, Generator)
	}
	want := func(key string) float64 { c.wants(key); return decode[float64](c.t, c.Out, key) }
	for _, p := range []struct {
		name    string
		got, se Value
	}{{"legacy", r.Legacy(), r.SEAbs}, {"centred", r.PCentred, r.SE}} {
		got, ok := p.got.Get()
		se, seOK := p.se.Get()
		if joint := math.Hypot(se, want("se_p_"+p.name)); !ok || !seOK || math.Abs(got-want("p_"+p.name)) > 4*joint {
			c.t.Errorf("p_%s: got %v (se %v), want %v", p.name, p.got, p.se, want("p_"+p.name))
		}
	}
	sd := want("null_sd")
	if d := math.Abs(r.NullMean.Or(math.NaN()) - want("null_mean")); !(d <= 4*sd/math.Sqrt(float64(s.B))) {
		c.t.Errorf("null mean: got %v, want %v", r.NullMean, want("null_mean"))
	}
	if got := r.NullSD.Or(math.NaN()); !(math.Abs(got/sd-1) <= 4/math.Sqrt(2*float64(s.B))) {
		c.t.Errorf("null sd: got %v, want %v", got, sd)
	}
}

func goldenSets(c *goldenCase) {
	switch c.kind() {
	case "jaccard":
		a, b := in[[][2]int](c, "a"), in[[][2]int](c, "b")
		o := Overlap(a, b)
		c.checkNumber("jaccard", Jaccard(a, b))
		c.checkNumber("intersection", float64(o.Intersection))
		c.checkNumber("union", float64(o.Union))
	case "gini":
		c.check("gini", Gini(c.floats("x")))
	case "rouge1":
		reference, prediction := in[string](c, "reference"), in[string](c, "prediction")
		r := Rouge1(reference, prediction, false)
		c.checkNumber("recall", r.Recall)
		c.checkNumber("precision", r.Precision)
		c.checkNumber("f1", r.F1)
		c.checkNumber("recall_stemmed", Rouge1(reference, prediction, true).Recall)
	default:
		c.t.Fatalf("unknown kind %q", c.kind())
	}
}

func goldenRanks(c *goldenCase) {
	if c.kind() == "matched_pairs" {
		r := MatchedRankBiserial(c.floats("d"))
		c.check("T_plus", r.TPlus)
		c.check("T_minus", r.TMinus)
		c.check("matched_rank_biserial", r.RankBiserial)
		return
	}
	var e RankEffects
	if c.has("labels") {
		e = CompareRanks(byLabel(c.floats("values"), c.bools("labels")))
	} else {
		e = CompareRanks(c.floats("x"), c.floats("y"))
	}
	c.check("U", e.U)
	c.check("cliffs_delta", e.CliffsDelta)
	c.check("auroc", e.AUROC)
	c.check("rank_biserial", e.RankBiserial)
	c.check("p_asymptotic_continuity", e.PContinuity)
	c.check("p_asymptotic_no_continuity", e.PAsymptotic)
	c.check("p_exact", e.PExact)
}

func goldenDescription(c *goldenCase) {
	var x []float64
	switch c.kind() {
	case "moments":
		x = c.floats("x")
	case "moments_merge":
		x = slices.Concat(in[[][]float64](c, "parts")...)
	case "quantile7":
		x = c.floats("x")
		before := slices.Clone(x)
		got := QuantileValues(x, c.floats("q")...)
		if string(c.Out["quantiles"]) == "null" {
			c.check("quantiles", got[0])
		} else {
			c.checkList("quantiles", got)
		}
		if !slices.Equal(x, before) {
			c.t.Error("the input was changed")
		}
		return
	default:
		c.t.Fatalf("unknown kind %q", c.kind())
	}
	d := Describe(x)
	c.checkNumber("n", float64(d.N))
	c.check("mean", d.Mean)
	c.check("var_ddof1", d.Var)
	c.check("var_ddof0", d.VarN)
	if mean, ok := d.Mean.Get(); ok {
		c.near("Mean", Mean(x), mean)
	}
}

func goldenProtocol(c *goldenCase) {
	switch c.kind() {
	case "freq_signature":
		r := FrequencyCentre(c.floats("centers"), c.floats("recall"), in[float64](c, "baseline"))
		c.check("freq_com", r.Centre)
		c.check("freq_width", r.Width)
	case "windows":
		w := FrequencyWindows(in[int](c, "head_dim"), in[int](c, "n_windows"), in[int](c, "divisor"))
		c.checkNumber("width", float64(w.Width))
		same(c, "starts", w.Starts, equalSlices[int])
		c.checkList("centers", numbers(w.Centres))
	case "specificity":
		s := PerplexitySpecificity(in[float64](c, "ppl_base"), in[float64](c, "ppl_low"), in[float64](c, "acc_base"), in[float64](c, "acc_low"))
		c.check("ratio", s.Ratio)
		same(c, "published_verdict", s.Verdict, equal[string])
	case "coverage":
		n, share := in[int](c, "n_detected"), in[float64](c, "coverage")
		c.checkNumber("n_heads", float64(CoverageCount(n, share, in[int](c, "cap"))))
		c.checkNumber("python_round", math.RoundToEven(float64(n)*share))
		c.checkNumber("half_away_from_zero", math.Floor(float64(n)*share+0.5))
	case "topk":
		scores := in[[][]float64](c, "scores")
		heads := func(of []int) (out [][2]int) {
			for _, i := range of {
				out = append(out, [2]int{i / len(scores[0]), i % len(scores[0])})
			}
			return out
		}
		flat := slices.Concat(scores...)
		ranked := TopK(flat, in[float64](c, "threshold"), len(flat))
		same(c, "ranked", heads(ranked), equalSlices[[2]int])
		same(c, "top_k", heads(TopK(flat, in[float64](c, "threshold"), in[int](c, "k"))), equalSlices[[2]int])
		same(c, "detected", heads(slices.Sorted(slices.Values(ranked))), equalSlices[[2]int])
	default:
		c.t.Fatalf("unknown kind %q in %s", c.kind(), strings.TrimSuffix(c.file, ".json"))
	}
}
