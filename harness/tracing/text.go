package tracing

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
)

// Write prints the heads with the largest effects of each group, so many of them, then paths and pairs.
func (t *Trace) Write(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d prompts, %d heads, %s; logit(answer) - logit(donor's answer)\n", t.Model.Ref, len(t.Prompts), len(t.Asked.Heads), t.Run.DType)
	for i := range t.Groups {
		if err := t.Groups[i].write(&b, top); err != nil {
			return err
		}
	}
	if err := t.writePairs(&b, top); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *Group) write(b *strings.Builder, top int) error {
	fmt.Fprintf(b, "\npatched at %s rows; plain run less donor's run: %+.3f\n", g.Rows, g.Gap)
	order := slices.Clone(g.Heads)
	slices.SortStableFunc(order, func(x, y HeadEffect) int {
		return cmp.Compare(math.Abs(float64(y.Total)), math.Abs(float64(x.Total)))
	})
	tw := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "head\ttotal\tsd\tnormalised\tdirect\ttotal-direct\tfirst order\t")
	for _, h := range order[:min(top, len(order))] {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", h.Head, signed(h.Total), plain(h.SD), signed(h.Normalised), signed(h.Direct), signed(h.SelfRepair), signed(h.First))
	}
	for _, p := range g.Paths {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t\t\t\t\n", p.Path, signed(p.Total), plain(p.SD), signed(p.Normalised))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(b, "first order against total over %d heads: Pearson %s, Spearman %s\n", len(g.Heads), plain(g.FirstPearson), plain(g.FirstSpearman))
	return nil
}

func (t *Trace) writePairs(b *strings.Builder, top int) error {
	if t.Pairs == nil {
		return nil
	}
	order := slices.Clone(t.Pairs.Pairs)
	slices.SortStableFunc(order, func(x, y PairEffect) int {
		return cmp.Compare(math.Abs(float64(y.Interaction)), math.Abs(float64(x.Interaction)))
	})
	fmt.Fprintf(b, "\npairs patched at %s rows, largest interactions of %d\n", t.Pairs.Rows, len(order))
	tw := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "pair\tboth\tsum of each\tinteraction\tsd\t")
	for _, p := range order[:min(top, len(order))] {
		fmt.Fprintf(tw, "%s %s\t%s\t%s\t%s\t%s\t\n", p.A, p.B, signed(p.Both), signed(p.Sum), signed(p.Interaction), plain(p.SD))
	}
	return tw.Flush()
}

func signed(n harness.Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%+.3f", float64(n))
}

func plain(n harness.Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(n))
}
