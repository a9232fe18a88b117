package replicate

import (
	"fmt"
	"math"
	"strings"

	"github.com/headscope/headscope/heads"
)

// Fault is something in a file that a reader has to know before trusting a number of it.
type Fault struct {
	Code string `json:"code"`
	Path string `json:"path"` // of the number it is about
	Text string `json:"text"`
}

// The faults that can be seen in the files alone.
const (
	FaultUncentred     = "uncentred-permutation" // p of |T*| >= |T|, although the null mean of a permutation inside layers is not 0
	FaultCoverageCap   = "coverage-cap"          // fewer heads were patched than the coverage says
	FaultBaselineFloor = "baseline-floor"        // the unedited model fails: an edit has little to take away
	FaultFailureAsMiss = "failure-as-miss"       // recall 0 where trials may not have run at all
	FaultNoDrop        = "specificity-no-drop"   // a ratio over a drop that is 0, negative or a few samples
	FaultSharedKeys    = "shared-keys"           // control heads of the same key/value groups lose recall too
	FaultFirstControl  = "first-control-only"    // McNemar's test against one of several control sets
	FaultZeroValues    = "zero-values"           // every value a head is 0: the weights were not read
	FaultCodes         = "codes-not-weights"     // row sums far beyond any trained projection's: 8-bit codes were added up
	FaultTies          = "ties-at-cut"           // heads with one score, some taken and some not
)

const (
	baselineFloor = 0.8  // recall of the unedited model below which an effect is read off the rest of a failing model
	smallDrop     = 0.1  // relative drop below which the specificity ratio is mostly noise: at most 12 of 120 samples
	controlLoss   = 0.02 // recall that control heads may lose: 2 of 120 samples
	largestL1     = 2000 // of a row of a trained query projection: about 100 at a hidden size of 4096
	controlGap    = 0.05 // recall by which the tested control set may differ from the mean of all
	signedP       = 0.9  // a p this close to 1: the layers' own differences are larger than the observed one
)

func (s *sheet) profileFaults(argmax heads.Detected) {
	for _, at := range []string{"profile.freq_patch", "profile.freq_signature", "profile.knockout"} {
		if base := s.f.number(at + ".baseline"); base < baselineFloor {
			s.fault(FaultBaselineFloor, at+".baseline", fmt.Sprintf("the unedited model recalls %.3g, below %g: drops and ratios start from a model that fails by itself", base, baselineFloor))
		}
	}
	s.patchFaults(argmax)
	s.knockoutFaults()
}

func (s *sheet) patchFaults(argmax heads.Detected) {
	const at = "profile.freq_patch"
	if !s.f.there(at) {
		return
	}
	n := func(key string) float64 { return s.f.number(at + "." + key) }
	patched := n("n_heads")
	if patched < float64(len(argmax.Heads)) {
		s.fault(FaultCoverageCap, at+".n_heads", fmt.Sprintf("%g of %d detected heads were patched, the protocol's cap", patched, len(argmax.Heads)))
		if ties := argmax.Scores.TiesAt(int(patched)); len(ties) > 0 {
			s.fault(FaultTies, at+".n_heads", fmt.Sprintf("%d heads share the score at the cut after %g: which were patched is an accident of order (%s)", len(ties), patched, ties))
		}
	}
	if group := s.f.list.Shape.Group(); group > 1 && n("baseline")-n("low_freq_control_heads") > controlLoss {
		s.fault(FaultSharedKeys, at+".low_freq_control_heads", fmt.Sprintf("control heads lose %.3g of recall %.3g: keys were edited too, and %d query heads share a key head",
			n("baseline")-n("low_freq_control_heads"), n("baseline"), group))
	}
	s.specificityFault(n("baseline")-n("low_freq"), n("baseline"), n("n_samples"), n("specificity_ratio"))
}

func (s *sheet) specificityFault(drop, base, samples, stored float64) {
	const at = "profile.freq_patch.specificity_ratio"
	if !s.f.has(at) || math.IsNaN(drop) {
		return
	}
	verdict := s.f.text("profile.freq_patch.specificity_verdict")
	of := fmt.Sprintf("%.0f of %g samples", drop*samples, samples)
	switch {
	case drop <= 0:
		s.fault(FaultNoDrop, at, fmt.Sprintf("there is no drop to divide by (%s); published verdict %q", of, verdict))
	case stored < 0:
		s.fault(FaultNoDrop, at, fmt.Sprintf("the ratio is %.3g: perplexity fell, which the cut at 0.33 calls %q", stored, verdict))
	case drop/base < smallDrop:
		s.fault(FaultNoDrop, at, fmt.Sprintf("the ratio %.3g divides by a drop of %s and has no interval; published verdict %q", stored, of, verdict))
	}
}

func (s *sheet) knockoutFaults() {
	const at = "profile.knockout"
	seeds := s.f.numbers(at + ".random_seeds")
	b, c, n := s.f.number(at+".mcnemar.b_retrieval_worse"), s.f.number(at+".mcnemar.c_retrieval_better"), s.f.number(at+".n_samples")
	if len(seeds) < 2 || !(b >= 0 && c >= 0 && n > 0) {
		return
	}
	all := s.f.number(at + ".mask_random")
	first := s.f.number(at+".mask_retrieval") + (b-c)/n // recall without the control set that the test is against
	if c <= b && math.Abs(first-all) <= controlGap {
		return
	}
	text := fmt.Sprintf("the test is against the first of %d control sets, which leaves recall %.3g; all leave %.3g on average", len(seeds), first, all)
	if c > b {
		text += "; it says that the control set did more harm than the heads"
	}
	s.fault(FaultFirstControl, at+".mcnemar.p_value", text)
}

func (s *sheet) utilityFaults() {
	if s.f.number("utility.retrieval_mean") == 0 && s.f.number("utility.non_retrieval_mean") == 0 {
		s.fault(FaultZeroValues, "utility.retrieval_mean", "the mean is 0 for both groups of heads: a query projection that was not found is stored as zeros")
	}
	if m := s.f.number("utility.non_retrieval_mean"); m > largestL1 {
		s.fault(FaultCodes, "utility.non_retrieval_mean", fmt.Sprintf("a mean row sum of %.0f is hundreds of times what the weights of a trained projection add up to: it is the size of 8-bit codes scaled to the row's largest weight, which tell the shape of rows, not their norm (wq_l1_int8 of headscope norms)", m))
	}
	const at = "utility.clustered_permutation_p"
	p := s.f.number(at)
	if math.IsNaN(p) {
		return
	}
	text := fmt.Sprintf("p %.4g counts |T*| >= |T| around 0, not around the null mean of a permutation inside layers", p)
	switch d := s.f.number("utility.cohens_d"); {
	case math.IsNaN(d):
		text += "; d is undefined: there was nothing to test"
	case p > signedP:
		text += fmt.Sprintf("; near 1, it says that the layers' own differences exceed the observed one (d %.3g), not that there is no effect inside layers", d)
	}
	s.fault(FaultUncentred, at, text+" (headscope norms gives both)")
}

// behaviourFaults looks for lengths at which recall is exactly 0 at every depth: the published code scores a trial that ran out of memory
// as wrong, and the file does not tell it from a miss.
func (s *sheet) behaviourFaults() {
	lengths := s.f.numbers("behavior.context_lengths")
	rows, ok := s.f.at("behavior.niah_matrix")
	list, isList := rows.([]any)
	if !ok || !isList || len(list) != len(lengths) {
		return
	}
	var zero, missing []string
	best := 0.0
	for i, row := range list {
		sum, absent := 0.0, 0
		cells := flatten(row)
		for _, v := range cells {
			if math.IsNaN(v) {
				absent++
			} else {
				sum += v
			}
		}
		switch {
		case absent > 0:
			missing = append(missing, fmt.Sprintf("%g", lengths[i]))
		case sum == 0 && len(cells) > 0:
			zero = append(zero, fmt.Sprintf("%g", lengths[i]))
		default:
			best = max(best, sum/float64(len(cells)))
		}
	}
	if len(zero) == 0 || best < baselineFloor {
		return
	}
	text := fmt.Sprintf("recall is exactly 0 at every depth at %s tokens and up to %.3g below", strings.Join(zero, ", "), best)
	if len(missing) > 0 {
		text += ", and missing at " + strings.Join(missing, ", ")
	}
	s.fault(FaultFailureAsMiss, "behavior.niah_matrix", text+": a trial that did not run (out of memory, beyond the model's positions) is scored as wrong here, and counts in niah_overall")
}
