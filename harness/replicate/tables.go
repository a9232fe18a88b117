package replicate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// coverage computes signatures by coverage; the number of detected heads comes from the profile of the same name, where it is given.
func (s *sheet) coverage(profiles map[string]*file) {
	detected := -1
	if p := profiles[s.f.base+"_seed42"]; p != nil {
		x, _ := p.list.Detector("argmax_last")
		detected = len(x.Heads)
	}
	for _, c := range s.f.keys("") {
		s.signature("_"+c, c, detected)
	}
}

// utility computes the p of the partial correlation: of a t with n-2 degrees of freedom, as published.
func (s *sheet) utility(profiles map[string]*file) {
	rho, n := s.f.number("utility.partial_spearman"), s.f.number("utility.n_retrieval")+s.f.number("utility.n_non_retrieval")
	if !math.IsNaN(rho) && n > 3 {
		s.compare("partial_p_from_rho_df_n_minus_2", "utility.partial_p", stats.CorrelationP(rho, int(n)-2), tail)
	}
	if p := profiles[s.f.base]; p != nil {
		x, _ := p.list.Detector("argmax_last")
		s.number("n_retrieval_equals_profile", "utility.n_retrieval", float64(len(x.Heads)))
	}
	s.utilityFaults()
}

func (s *sheet) behaviour() {
	s.compare("niah_overall_skipping_missing", "behavior.niah_overall", stats.Describe(s.f.numbers("behavior.niah_matrix")).Mean, exact)
	for _, task := range s.f.keys("behavior.ruler.tasks") {
		for _, length := range s.f.keys("behavior.ruler.tasks." + task) {
			at := "behavior.ruler.tasks." + task + "." + length
			seeds := s.f.numbers(at + ".per_seed")
			if len(seeds) < 2 || slices.ContainsFunc(seeds, math.IsNaN) {
				continue
			}
			d := stats.Describe(seeds)
			s.compare("ruler_mean_"+task+"_"+length, at+".mean", d.Mean, exact)
			s.compare("ruler_sd_ddof1_"+task+"_"+length, at+".std", d.SD, exact)
		}
	}
	s.behaviourFaults()
}

var detectorKeys = []struct{ key, detector string }{{"argmax", "argmax_last"}, {"copy", "copy_tf"}}

// pair is what two profiles say of one detector.
type pair struct{ a, b heads.Detected }

func pairOf(a, b *file, detector string) (p pair, ok bool) {
	if a == nil || b == nil || a.list.Shape != b.list.Shape {
		return p, false
	}
	p.a, _ = a.list.Detector(detector)
	p.b, _ = b.list.Detector(detector)
	return p, true
}

func (p pair) jaccard() float64      { return stats.Jaccard(p.a.Heads, p.b.Heads) }
func (p pair) spearman() stats.Value { return stats.Spearman(p.a.Scores.Data, p.b.Scores.Data).R }

// inheritance computes what a child keeps of its parent's heads, where both profiles are given.
func (s *sheet) inheritance(profiles map[string]*file) {
	for i, ring := range s.f.rows("rings") {
		parent, child := fmt.Sprint(ring["parent"]), fmt.Sprint(ring["child"])
		for _, k := range detectorKeys {
			at := fmt.Sprintf("rings.%d.E10_identity.%s", i, k.key)
			p, ok := pairOf(profiles[parent+"_seed42"], profiles[child+"_seed42"], k.detector)
			if !ok || !s.f.there(at) {
				continue
			}
			name := "_" + k.key + "_" + parent + "_" + child
			s.number("jaccard"+name, at+".jaccard", p.jaccard())
			s.compare("spearman"+name, at+".per_head_score_spearman", p.spearman(), exact)
			lost := p.a.Heads.Set().Minus(p.b.Heads.Set())
			if stored, ok := s.f.set(at + ".lost"); ok {
				it := Item{Name: "lost" + name, Path: at + ".lost"}.compared([]float64{float64(len(stored))}, []stats.Value{stats.Number(float64(len(lost)))})
				if !stored.Equal(lost) {
					it.Agrees, it.Note = false, "differ in "+stored.Xor(lost).String()
				}
				s.add(it)
			}
		}
	}
}

// reliability computes the agreement of two seeds, where both profiles are given.
func (s *sheet) reliability(profiles map[string]*file) {
	for i, row := range s.f.rows("reliability") {
		model := fmt.Sprint(row["model"])
		for _, k := range detectorKeys {
			p, ok := pairOf(profiles[model+"_seed42"], profiles[model+"_seed123"], k.detector)
			if !ok {
				continue
			}
			at := fmt.Sprintf("reliability.%d.%s", i, k.key)
			s.number(k.key+"_jaccard_"+model, at+"_jaccard", p.jaccard())
			s.compare(k.key+"_spearman_"+model, at+"_score_spearman", p.spearman(), exact)
		}
	}
}

// sweep computes the drops of a knock-out curve.
func (s *sheet) sweep() {
	for _, model := range s.f.keys("") {
		for i, row := range s.f.rows(model + ".curve") {
			at := fmt.Sprintf("%s.curve.%d", model, i)
			s.compare(fmt.Sprintf("drop_%s_k%v", model, row["k"]), at+".drop", stats.Number(s.f.number(model+".baseline")-s.f.number(at+".mask_acc")), exact)
		}
	}
}

// prediction computes the correlations over models and their adjusted p values. Rows in which either number is missing are left out.
func (s *sheet) prediction() {
	rows := s.f.rows("table")
	labels := make([]string, len(rows))
	for i, r := range rows {
		labels[i] = fmt.Sprint(r["family"])
	}
	for _, section := range []string{"single_correlations", "family_demeaned"} {
		for i, e := range s.f.rows(section) {
			x, y := fmt.Sprint(e["predictor"]), fmt.Sprint(e["target"])
			a, b, families := complete(s.f.column("table", x), s.f.column("table", y), labels)
			at, name := fmt.Sprintf("%s.%d", section, i), x+"_"+y
			if len(a) < 3 {
				continue
			}
			if section == "single_correlations" {
				rho := stats.Spearman(a, b)
				s.compare("spearman_"+name, at+".spearman_rho", rho.R, exact)
				s.compare("spearman_p_"+name, at+".p_value", rho.P, tailRho)
			} else {
				// numpy's route: the published table breaks ties of residuals by their rounding
				s.compare("within_family_"+name, at+".within_family_spearman", stats.SpearmanByLayer(a, b, families).DemeanRankFloat, exact)
			}
		}
		s.adjusted(section)
	}
}

// complete keeps the rows in which both numbers are there, with their labels as numbers.
func complete(x, y []float64, labels []string) (a, b []float64, ids []int) {
	for i := range x {
		if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
			a, b, ids = append(a, x[i]), append(b, y[i]), append(ids, slices.Index(labels, labels[i]))
		}
	}
	return a, b, ids
}

// adjusted computes Benjamini and Hochberg's p values twice, over all rows and for each target alone, since the files do not say which
// family they took; the note does.
func (s *sheet) adjusted(section string) {
	rows := s.f.rows(section)
	p, stored := s.f.column(section, "p_value"), s.f.column(section, "p_adjusted_bh")
	targets := make([]string, len(rows))
	for i, r := range rows {
		targets[i] = fmt.Sprint(r["target"])
	}
	each := make([]stats.Value, len(p))
	for _, target := range targets {
		family := slices.Repeat([]float64{math.NaN()}, len(p))
		for i := range p {
			if targets[i] == target {
				family[i] = p[i]
			}
		}
		for i, v := range stats.BenjaminiHochberg(family).P {
			if targets[i] == target {
				each[i] = v
			}
		}
	}
	path := section + ".*.p_adjusted_bh"
	var choices []Item
	for _, c := range []struct {
		note string
		got  []stats.Value
	}{{"one family over all rows", stats.BenjaminiHochberg(p).P}, {"one family a target", each}} {
		var kept []float64
		var got []stats.Value
		for i := range p {
			if !math.IsNaN(p[i]) {
				kept, got = append(kept, stored[i]), append(got, c.got[i])
			}
		}
		choices = append(choices, Item{Name: "bh_" + section, Path: path, Tolerance: exact, Note: c.note}.compared(kept, got))
	}
	if !choices[0].Agrees && choices[1].Agrees {
		choices[0] = choices[1]
	} else if !choices[0].Agrees {
		choices[0].Note = strings.Join([]string{choices[0].Note, choices[1].Note}, ", nor ")
	}
	s.add(choices[0])
}
