package headlists

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// shownHeads is how many heads Write lists at each end.
const shownHeads = 8

// Write prints the norms as text: the heads that stand out of their layers, then the tests.
func (n *Norms) Write(w io.Writer) error {
	var b strings.Builder
	m := n.Model
	fmt.Fprintf(&b, "%s  %d layers x %d heads (%d kv), head size %d, hidden %d, %s\n\n", m.Ref, m.Layers, m.Heads, m.KVHeads, m.HeadDim, m.Hidden, m.DType)
	n.ends(&b)
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if n.Set == nil {
		fmt.Fprintln(tw, "score\tsmallest\tmean\tlargest")
		for i := range n.Scores {
			low, mean, high := span(n.Scores[i].Data)
			fmt.Fprintf(tw, "%s\t%.4g\t%.4g\t%.4g\n", n.Scores[i].Detector, low, mean, high)
		}
	} else {
		fmt.Fprintf(&b, "%d heads of %s (%s) against the other %d\n", len(n.Set.Heads), n.Set.Source, n.Set.Detector, m.Layers*m.Heads-len(n.Set.Heads))
		fmt.Fprintln(tw, "score\tmean\tothers\td\t95 %\td in layers\tAUROC\tdifference\tby chance\tp centred\tp published\tp kv groups")
		for _, t := range n.Tests {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Detector, digits(t.Mean1), digits(t.Mean0), digits(t.CohenD.Value), ends(t.CohenD),
				digits(t.DemeanedD), digits(t.AUROC), digits(t.Difference), digits(t.NullMean), digits(t.P), digits(t.Published), digits(t.PGroups))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if n.Set != nil {
		n.spearman(&b)
		fmt.Fprintf(&b, "p centred: labels moved inside layers, |T*-E0| >= |T-E0| with E0 the difference by chance; p published: |T*| >= |T|, no test where E0 is not 0.\n")
		fmt.Fprintf(&b, "d's interval: %d draws of whole layers. %s is the score to look at; the others say how it was made.\n", n.Resamples, ScoreL1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ends lists the heads that stand out most of their layers.
func (n *Norms) ends(b *strings.Builder) {
	r := n.Z.Ranking()
	k := min(shownHeads, len(r)/2)
	show := func(list []decoder.Head) {
		for _, h := range list {
			fmt.Fprintf(b, "  %s %+.2f", h, n.Z.At(h))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s, in standard deviations of its layer\n  highest:", ScoreL1)
	show(r[:k])
	b.WriteString("  lowest: ")
	show(r[len(r)-k:])
	b.WriteByte('\n')
}

func (n *Norms) spearman(b *strings.Builder) {
	for _, t := range n.Tests {
		if x := t.Spearman; x != nil {
			fmt.Fprintf(b, "%s with %s: Spearman %s over all heads, %s %s inside layers (p %s; published %s)\n",
				t.Detector, x.With, digits(x.All), digits(x.InLayers.Value), ends(x.InLayers), digits(x.P), digits(x.Published))
		}
	}
}

func span(x []float64) (low, mean, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range x {
		low, high, mean = min(low, v), max(high, v), mean+v/float64(len(x))
	}
	return low, mean, high
}

func digits(x harness.Number) string {
	if math.IsNaN(float64(x)) {
		return "-"
	}
	return fmt.Sprintf("%.4g", float64(x))
}

func ends(m harness.Metric) string {
	if math.IsNaN(float64(m.Low)) {
		return "-"
	}
	return fmt.Sprintf("[%.3g, %.3g]", float64(m.Low), float64(m.High))
}
