package replicate

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// coverageCap is the most heads that the published protocol patches, whatever the coverage says.
const coverageCap = 30

// profile computes a profile's numbers again from its score matrices, its lists, its accuracies and its counts.
func (s *sheet) profile() {
	f, d := s.f, s.f.list
	argmax, _ := d.Detector("argmax_last")
	copied, _ := d.Detector("copy_tf")
	threshold := f.number("profile.threshold")
	set := argmax.Heads.Set()
	for _, x := range []struct {
		item, list, key string
		of              heads.Detected
	}{{"", "argmax_heads", "profile.n_heads", argmax}, {"copy_", "copy_heads", "profile.n_heads_copy", copied}} {
		found := x.of.Scores.AtLeast(threshold)
		s.number(x.item+"heads_at_threshold", x.key, float64(len(found)))
		s.truth(x.item+"head_list_equals_scores_ge_threshold", x.list, found.Equal(x.of.Heads.Set()), "differ in "+found.Xor(x.of.Heads.Set()).String())
	}
	c := argmax.Scores.Concentration(threshold)
	s.compare("gini", "profile.concentration.gini", c.Gini, exact)
	s.compare("zero_fraction", "profile.concentration.zero_fraction", c.ZeroFraction, exact)
	s.compare("below_threshold_fraction", "profile.concentration.below_threshold_fraction", c.BelowThreshold, exact)
	s.number("n_active_heads", "profile.concentration.n_active_heads", float64(c.Active))
	s.compare("score_mean_active", "profile.concentration.score_mean_active", c.MeanActive, exact)
	s.compare("top5_mass_share", "profile.concentration.top5_mass_share", c.TopFive, exact)
	l := set.LayerProfile(d.Shape.Layers, argmax.Scores)
	s.compare("layer_com", "profile.layer_profile.layer_com", l.Centre, exact)
	s.compare("layer_com_weighted", "profile.layer_profile.layer_com_weighted", l.Weighted, exact)
	s.compare("early_frac", "profile.layer_profile.early_frac", l.Early, exact)
	s.compare("mid_frac", "profile.layer_profile.mid_frac", l.Mid, exact)
	s.compare("late_frac", "profile.layer_profile.late_frac", l.Late, exact)
	if g := d.Shape.Group(); g > 0 {
		kv := set.KVProfile(g)
		s.number("kv_active_groups", "profile.gqa.n_active_groups", float64(kv.Active))
		s.compare("kv_full_group_fraction", "profile.gqa.full_group_fraction", kv.Full, exact)
	}
	jaccard := stats.Jaccard(set, copied.Heads.Set())
	s.number("jaccard_argmax_copy", "profile.detector_agreement.jaccard", jaccard)
	rho := stats.Spearman(argmax.Scores.Data, copied.Scores.Data)
	s.compare("spearman_argmax_copy", "profile.detector_score_spearman.spearman_rho", rho.R, exact)
	s.compare("spearman_p", "profile.detector_score_spearman.spearman_p", rho.P, tail)
	s.patch()
	s.knockout()
	s.signature("", "profile.freq_signature", len(argmax.Heads))
	s.compare("scalar_gini", "profile.scalars.gini", c.Gini, exact)
	s.compare("scalar_zero_fraction", "profile.scalars.zero_fraction", c.ZeroFraction, exact)
	s.compare("scalar_layer_com", "profile.scalars.layer_com", l.Weighted, exact)
	s.number("scalar_detector_jaccard", "profile.scalars.detector_jaccard", jaccard)
	s.profileFaults(argmax)
}

// patch is the edit of the lowest frequencies in all patched heads.
func (s *sheet) patch() {
	const at = "profile.freq_patch"
	if !s.f.there(at) {
		return
	}
	n := func(key string) float64 { return s.f.number(at + "." + key) }
	s.mcnemar("mcnemar_freq_patch", at+".frequency_mcnemar", "b_lowfreq_worse", "c_lowfreq_better")
	s.compare("frequency_effect", at+".frequency_effect", stats.Number(n("low_freq")-n("high_freq")), exact)
	b, c := n("frequency_mcnemar.b_lowfreq_worse"), n("frequency_mcnemar.c_lowfreq_better")
	s.compare("b_minus_c_over_n", at+".frequency_effect", ratio(c-b, n("n_samples")), exact)
	s.compare("niah_rel_drop", at+".niah_rel_drop", ratio(n("baseline")-n("low_freq"), n("baseline")), exact)
	if s.f.there(at+".perplexity_baseline") && s.f.there(at+".perplexity_lowfreq") {
		s.compare("perplexity_ratio", at+".perplexity_ratio", ratio(n("perplexity_lowfreq"), n("perplexity_baseline")), exact)
		s.compare("specificity_ratio", at+".specificity_ratio",
			stats.PerplexitySpecificity(n("perplexity_baseline"), n("perplexity_lowfreq"), n("baseline"), n("low_freq")).Ratio, exact)
	}
	s.compare("retrieval_head_specificity", at+".retrieval_head_specificity", stats.Number(n("low_freq_control_heads")-n("low_freq")), exact)
}

func ratio(a, b float64) stats.Value {
	if b == 0 {
		return stats.NoValue(stats.ReasonNoData)
	}
	return stats.Number(a / b)
}

// mcnemar computes the exact p of stored discordant counts.
func (s *sheet) mcnemar(item, at, worse, better string) {
	b, c := s.f.number(at+"."+worse), s.f.number(at+"."+better)
	if !(b >= 0 && c >= 0 && b < 1e9 && c < 1e9) {
		s.absent = append(s.absent, at+"."+worse)
		return
	}
	s.compare(item, at+".p_value", stats.Number(stats.McNemar(int(b), int(c)).P), exact)
}

func (s *sheet) knockout() {
	const at = "profile.knockout"
	if !s.f.there(at) {
		return
	}
	n := func(key string) float64 { return s.f.number(at + "." + key) }
	s.mcnemar("mcnemar_knockout", at+".mcnemar", "b_retrieval_worse", "c_retrieval_better")
	s.compare("knockout_drop", at+".knockout_drop", stats.Number(n("baseline")-n("mask_retrieval")), exact)
	s.compare("knockout_random_drop", at+".random_drop", stats.Number(n("baseline")-n("mask_random")), exact)
	s.compare("dissociation", at+".dissociation", stats.Number(n("knockout_drop")-n("random_drop")), exact)
}

// signature is the recall under each window's edit; detected, the number of heads to take the coverage of, is -1 where it is not known.
func (s *sheet) signature(suffix, at string, detected int) {
	if !s.f.there(at) {
		return
	}
	centres, recall := s.f.numbers(at+".window_centers"), s.f.numbers(at+".recall")
	if len(centres) != len(recall) {
		s.absent = append(s.absent, at+".recall")
		return
	}
	sig := stats.FrequencyCentre(centres, recall, s.f.number(at+".baseline"))
	s.compare("freq_com"+suffix, at+".freq_com", sig.Centre, exact)
	s.compare("freq_width"+suffix, at+".freq_width", sig.Width, exact)
	coverage := s.f.number(at + ".coverage")
	if detected < 0 || !(coverage >= 0) {
		return
	}
	patched := stats.CoverageCount(detected, coverage, coverageCap)
	s.number("n_patched"+suffix, at+".n_patched", float64(patched))
	if want := stats.CoverageCount(detected, coverage, detected); patched < want {
		s.fault(FaultCoverageCap, at+".n_patched", fmt.Sprintf("coverage %g of %d heads is %d heads; %d were patched, the protocol's cap", coverage, detected, want, patched))
	}
}
