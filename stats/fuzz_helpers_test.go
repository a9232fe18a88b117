package stats

import (
	"math"
	"reflect"
	"slices"
)

// everyFor computes all statistics of a table; the treated cluster is layer 0 or the first there is.
func (d table) everyFor(s Sampling) map[string]any {
	x1, x0 := byLabel(d.x, d.labels)
	diff := differences(d.x, d.y)
	out := map[string]any{
		"describe": Describe(d.x), "cohen": CohenD(x1, x0), "demeaned": LayerDemeanedD(d.x, d.layers, d.labels), "ranks": CompareRanks(x1, x0),
		"matched": MatchedRankBiserial(diff), "pearson": Pearson(d.x, d.y), "spearman": Spearman(d.x, d.y), "kendall": Kendall(d.x, d.y),
		"partial": SpearmanByLayer(d.x, d.y, d.layers), "f": FTest(x1, x0), "welch": Welch(x1, x0), "levene": Levene(x1, x0),
		"brown": BrownForsythe(x1, x0), "fligner": FlignerKilleen(x1, x0), "bartlett": Bartlett(x1, x0), "obrien": OBrien(x1, x0),
		"flip": SignFlip(diff, s), "mean": MeanDifference(x1, x0, s), "variance": LogVarianceRatio(x1, x0, s),
		"layers": PermuteLayers(d.x, d.layers, d.labels, s), "groups": PermuteGroups(d.x, d.layers, d.groups, d.labels, s),
		"tost": EquivalentMeans(diff, 0.5, 0.05), "gini": Gini(d.x), "retest": TestRetest(d.x, d.y),
	}
	if len(d.layers) > 0 {
		out["clusters"] = PermuteClusters(d.x, d.layers, []int{slices.Min(d.layers)}, s)
	}
	return out
}

// notFinite names the first number in v that is NaN or infinite. An Interval's ends count where it is defined.
func notFinite(v any) string {
	bad := ""
	var visit func(v reflect.Value, path string)
	visit = func(v reflect.Value, path string) {
		switch x := v.Interface().(type) {
		case Value:
			if n, _ := x.Get(); math.IsNaN(n) || math.IsInf(n, 0) {
				bad = path
			}
			return
		case Interval:
			if x.Why != "" {
				return
			}
			if math.IsNaN(x.Lo) || math.IsNaN(x.Hi) || math.IsInf(x.Lo, 0) || math.IsInf(x.Hi, 0) {
				bad = path
			}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					visit(v.Field(i), path+"."+f.Name)
				}
			}
		case reflect.Interface, reflect.Pointer:
			if !v.IsNil() {
				visit(v.Elem(), path)
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				visit(v.Index(i), path)
			}
		case reflect.Float64:
			if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
				bad = path
			}
		}
	}
	visit(reflect.ValueOf(v), "")
	return bad
}
