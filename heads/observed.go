package heads

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader/decoder"
)

// View is what [decoder.Model.Observe] saw of one prompt, with the numbers of rows and spans that it was asked for. Its methods reduce the
// observation to a value a head, [layers*heads], row-major: the score of that prompt under a detector. Rows and spans are counted as
// they were asked for.
type View struct {
	*decoder.Observation
	Rows, Spans int
}

// heads is how many heads there are in all.
func (v View) heads() int { return len(v.Argmax) / v.Rows }

func (v View) each(f func(at int) float64) []float64 {
	out := make([]float64, v.heads())
	for i := range out {
		out[i] = f(i * v.Rows)
	}
	return out
}

func count(in bool) float64 {
	if in {
		return 1
	}
	return 0
}

// NoSink is argmax_nosink: 1 where the row's largest weight, the first token left out, lies in the needle. To normalise the row that is
// left changes no largest weight. The first token is where idle heads rest (Xiao et al. 2023, attention sinks).
func (v View) NoSink(row int, needle Span) []float64 {
	return v.each(func(at int) float64 { return count(needle.Contains(int(v.ArgmaxFar[at+row]))) })
}

// Select is 1 where the row's largest weight lies in the asked needle, -1 where it lies in the decoy's sentence, which says the same of
// something else, and 0 elsewhere. Its mean is P(asked) - P(not asked): a head that looks at every needle alike gets 0.
func (v View) Select(row int, needle, decoy Span) []float64 {
	return v.each(func(at int) float64 {
		key := int(v.Argmax[at+row])
		return count(needle.Contains(key)) - count(decoy.Contains(key))
	})
}

// MeanMass is the mean over rows from..to-1 of the weight on a span: with the question's rows and the needle it is qr_raw (QRScore of the
// paper, Zhang et al. 2025).
func (v View) MeanMass(from, to, span int) []float64 {
	return v.each(func(at int) float64 {
		sum := 0.0
		for r := from; r < to; r++ {
			sum += float64(v.Mass[(at+r)*v.Spans+span])
		}
		return sum / float64(to-from)
	})
}

// MeanDirect is the mean over rows from..to-1 of what each head adds to the rows' contrasts of logits: logit_attr.
func (v View) MeanDirect(from, to int) []float64 {
	return v.each(func(at int) float64 {
		sum := 0.0
		for r := from; r < to; r++ {
			sum += v.Direct[at+r]
		}
		return sum / float64(to-from)
	})
}

// Locos is the spatial contrast of logit-contribution scoring (LOCOS, Gema, Alex, Minervini 2026, arXiv 2607.01002; rescaled as in its
// code): the mean over some rows, which follow each other from row from on, of what each head's output-value circuit writes towards the
// rows' contrasts from the needle's keys, minus what it writes from all other keys the row sees, scaled to as many keys as the needle has.
// keys holds, for each row, how many keys it sees: the first so many. The needle is span 0.
func (v View) Locos(from int, keys []int, needle Span) []float64 {
	n := float64(needle.Len())
	return v.each(func(at int) float64 {
		sum := 0.0
		for j, seen := range keys {
			inside := v.From[(at+from+j)*v.Spans]
			sum += inside
			if rest := float64(seen) - n; rest > 0 {
				sum -= (v.Direct[at+from+j] - inside) * n / rest
			}
		}
		return sum / float64(len(keys))
	})
}

// Wu scores the decoding of one answer as Wu et al. 2024 do. Row from+j is the one that produced answer token j. A step counts where the
// row's largest weight, of all keys, lies in the needle and the key's token is the one produced. step is their number over the needle's
// length, as the published code adds them up: steps that copy one token twice count twice, so that it can pass 1. set is the paper's
// formula: the different tokens copied over the different tokens of the needle.
func (v View) Wu(from int, answer, prompt []int32, needle Span) (step, set []float64) {
	distinct := map[int32]bool{}
	for _, id := range prompt[needle[0]:needle[1]] {
		distinct[id] = true
	}
	step, set = make([]float64, v.heads()), make([]float64, v.heads())
	for i := range step {
		copied, n := map[int32]bool{}, 0
		for j, id := range answer {
			if at := int(v.Argmax[i*v.Rows+from+j]); needle.Contains(at) && prompt[at] == id {
				n++
				copied[id] = true
			}
		}
		step[i], set[i] = float64(n)/float64(needle.Len()), float64(len(copied))/float64(len(distinct))
	}
	return step, set
}

// Calibrated is qr_cal, as QRHead's code has it: asked and null are, by needle token, what [View.MeanMass] gives for it under the question
// and under a null query. Their difference is summed over the needle's tokens, without those that lie more than two standard
// deviations (of the sample) below its mean. It panics where the two differ in length.
func Calibrated(asked, null [][]float64) []float64 {
	if len(asked) != len(null) {
		panic(fmt.Sprintf("heads: %d needle tokens asked for, %d under the null query", len(asked), len(null)))
	}
	n := float64(len(asked))
	out := make([]float64, len(asked[0]))
	for i := range out {
		mean, square := 0.0, 0.0
		for t := range asked {
			mean += (asked[t][i] - null[t][i]) / n
		}
		for t := range asked {
			d := asked[t][i] - null[t][i] - mean
			square += d * d
		}
		low := mean - 2*math.Sqrt(square/max(1, n-1))
		for t := range asked {
			if d := asked[t][i] - null[t][i]; d >= low {
				out[i] += d
			}
		}
	}
	return out
}
