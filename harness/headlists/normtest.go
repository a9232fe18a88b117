package headlists

import (
	"math"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// NormTest compares the labelled heads' score with that of all others.
type NormTest struct {
	Detector string         `json:"detector"`
	N1       int            `json:"n1"` // labelled heads
	N0       int            `json:"n0"` // others
	Mean1    harness.Number `json:"mean1"`
	Mean0    harness.Number `json:"mean0"`

	CohenD    harness.Metric `json:"cohen_d"`          // over all heads, as published; interval over whole layers
	DemeanedD harness.Number `json:"layer_demeaned_d"` // of values less their layer's mean
	AUROC     harness.Number `json:"auroc"`            // P(labelled > other), ties half

	// Labels moved inside layers, T the difference of means. Published is the p of |T*| >= |T|, which is no test where NullMean is not 0.
	Difference    harness.Number `json:"difference"`
	NullMean      harness.Number `json:"null_mean"`
	P             harness.Number `json:"p_layers_centred"`
	Published     harness.Number `json:"p_layers_published"`
	PGroups       harness.Number `json:"p_kv_groups_centred"` // whole key/value groups moved inside layers
	Exact         bool           `json:"exact"`               // every arrangement was counted
	Uninformative int            `json:"uninformative_layers"`

	Spearman *NormSpearman `json:"spearman"` // with the list's score; null where it has none
	Reason   string        `json:"reason,omitempty"`
}

// NormSpearman correlates the score with the list's own.
type NormSpearman struct {
	With      string         `json:"with"`
	All       harness.Number `json:"all_heads"`
	InLayers  harness.Metric `json:"in_layers"`             // layer means removed, then ranked, as published; interval over whole layers
	P         harness.Number `json:"p_in_layers"`           // on n - layers - 1 degrees of freedom
	Published harness.Number `json:"p_in_layers_published"` // on n - 2, as if no layer mean had been fitted
}

const overLayers = "bootstrap over whole layers, percentile 95 %"

// test compares one score. stream sets its random numbers apart.
func (n *Norms) test(s *heads.Scores, set heads.Set, listed *heads.Scores, stream uint64) NormTest {
	labels, layers, groups := make([]bool, len(s.Data)), make([]int, len(s.Data)), make([]int, len(s.Data))
	group := n.Model.Heads / n.Model.KVHeads
	for i := range s.Data {
		layers[i], groups[i] = i/s.Heads, i/group
	}
	for _, h := range set {
		labels[h.Layer*s.Heads+h.Index] = true
	}
	var x1, x0 []float64
	for i, v := range s.Data {
		if labels[i] {
			x1 = append(x1, v)
		} else {
			x0 = append(x0, v)
		}
	}
	source := func(k uint64) stats.Source { return stats.Source{Seed: n.Seed, Stream: stream + k} }
	sampling := func(k uint64) stats.Sampling { return stats.Sampling{B: n.Permutations, Source: source(k)} }
	r := stats.Resampling{N: n.Resamples, Level: level}

	d := stats.CohenD(x1, x0)
	t := NormTest{Detector: s.Detector, N1: len(x1), N0: len(x0), Mean1: num(stats.Describe(x1).Mean), Mean0: num(stats.Describe(x0).Mean)}
	boot := stats.ClusterBootstrap(layers, stats.LabelledEffect(s.Data, labels, true), r, source(1))
	t.CohenD = metric(d.CohenD, boot, len(s.Data))
	t.DemeanedD, t.AUROC = num(stats.LayerDemeanedD(s.Data, layers, labels).CohenD), num(stats.CompareRanks(x1, x0).AUROC)
	p := stats.PermuteLayers(s.Data, layers, labels, sampling(2))
	t.Difference, t.NullMean, t.P, t.Published = num(p.T), num(p.NullMean), num(p.PCentred), num(p.Legacy())
	t.Exact, t.Uninformative = p.Draws.Exact, p.Uninformative
	t.PGroups = num(stats.PermuteGroups(s.Data, layers, groups, labels, sampling(3)).PCentred)
	t.Reason = string(p.T.Why())
	if listed != nil {
		t.Spearman = spearman(s, listed, layers, r, source(4))
	}
	return t
}

func spearman(s, listed *heads.Scores, layers []int, r stats.Resampling, src stats.Source) *NormSpearman {
	in := stats.SpearmanByLayer(s.Data, listed.Data, layers)
	boot := stats.ClusterBootstrap(layers, stats.LayerSpearman(s.Data, listed.Data, true), r, src)
	return &NormSpearman{listed.Detector, num(stats.Spearman(s.Data, listed.Data).R), metric(in.DemeanRank, boot, len(s.Data)), num(in.PDemeanRankLayers), num(in.PDemeanRank)}
}

func num(v stats.Value) harness.Number { return harness.Number(v.Or(math.NaN())) }

func metric(v stats.Value, boot stats.BootstrapResult, of int) harness.Metric {
	m := harness.Metric{Value: num(v), Low: harness.Number(boot.Percentile.Lo), High: harness.Number(boot.Percentile.Hi), Method: overLayers, Of: of, Reason: string(v.Why())}
	if m.Reason == "" {
		m.Reason = string(boot.Percentile.Why)
	}
	return m
}
