package headlists

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// Write prints the comparison as text.
func (c *Comparison) Write(w io.Writer) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "file\tformat\tdetector\theads\tkv heads\tdepth\tGini")
	for _, f := range c.Files {
		for _, d := range f.Detectors {
			cells := []string{f.Path, string(f.Format), d.Detector, "-", "-", "-", "-"}
			if d.Listed {
				cells[3] = fmt.Sprint(len(d.Heads))
			}
			if d.KV != nil {
				cells[4] = fmt.Sprint(d.KV.Active)
			}
			if d.Layers != nil {
				cells[5] = number(d.Layers.Centre)
			}
			if d.Scores != nil {
				cells[6] = number(d.Scores.Gini)
			}
			fmt.Fprintln(tw, strings.Join(cells, "\t"))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d layers x %d %s (from %s)\n\n", c.Shape.Layers, c.width(), unitText(c.Unit), c.ShapeFrom)
	fmt.Fprintln(tw, "pair\tof\tshared\tby chance\tp\tJaccard\t95 %\tSpearman\t95 %\tin layers\t95 %")
	for i := range c.Pairs {
		p := &c.Pairs[i]
		name := p.A
		if p.A != p.B || len(c.Files) == 1 {
			name += " / " + p.B
		}
		row(tw, name, unitText(c.Unit), p.Sets, p.Scores)
		if p.KV != nil || p.KVScore != nil {
			row(tw, "", "kv heads", p.KV, p.KVScore)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nby chance: of sets with as many heads in each layer, p the share of them that share as many. Intervals: %d draws of whole layers.\n", c.Resamples)
	for i := range c.Pairs {
		c.Pairs[i].write(&b)
	}
	if len(c.Conditions) > 0 {
		fmt.Fprintln(tw, "\ncondition\trecall\t95 %\tand\t95 %\tmargin\tand")
		for _, p := range c.Conditions {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, digits(p.RecallA.Value), ends(p.RecallA), digits(p.RecallB.Value), ends(p.RecallB),
				digits(p.MarginA.Value), digits(p.MarginB.Value))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		for _, p := range c.Conditions {
			for _, x := range p.Past {
				fmt.Fprintf(&b, "%s: past the tolerance: %s\n", p.Name, x)
			}
		}
	}
	if c.Tolerance != nil {
		fmt.Fprintf(&b, "%d comparisons past the tolerance of %g\n", c.Past, *c.Tolerance)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func unitText(unit string) string { return strings.ReplaceAll(unit, "_", " ") }

func row(w io.Writer, name, unit string, s *heads.SetAgreement, x *heads.ScoreAgreement) {
	cells := []string{name, unit, "-", "-", "-", "-", "-", "-", "-", "-", "-"}
	if s != nil {
		cells[2], cells[3], cells[4] = fmt.Sprintf("%d of %d", s.Intersection, s.Union), fmt.Sprintf("%.2f", s.Chance), fmt.Sprintf("%.2g", s.P)
		cells[5], cells[6] = fmt.Sprintf("%.3f", s.Jaccard), interval(s.Interval)
	}
	if x != nil {
		cells[7], cells[8], cells[9], cells[10] = number(x.Spearman), interval(x.Interval), number(x.InLayers), interval(x.InInterval)
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

func number(v stats.Value) string {
	if x, ok := v.Get(); ok {
		return fmt.Sprintf("%.3f", x)
	}
	return "-"
}

func interval(iv stats.Interval) string {
	if iv.Why != "" {
		return "-"
	}
	return fmt.Sprintf("[%.3f, %.3f]", iv.Lo, iv.Hi)
}

// mostNamed is how many heads of one side are named.
const mostNamed = 24

func shorten(s heads.Set) string {
	if len(s) <= mostNamed {
		return s.String()
	}
	return fmt.Sprintf("%s and %d more", s[:mostNamed], len(s)-mostNamed)
}

// write prints the heads of one side alone, and what the numbers of the table leave out.
func (p *Pair) write(b *strings.Builder) {
	name := p.A + " / " + p.B
	if p.Sets != nil && len(p.Sets.OnlyA)+len(p.Sets.OnlyB) > 0 {
		fmt.Fprintf(b, "%s: only the first: %s; only the second: %s\n", name, shorten(p.Sets.OnlyA), shorten(p.Sets.OnlyB))
	}
	if p.Cut != "" {
		fmt.Fprintf(b, "%s: no list, so %s\n", name, p.Cut)
	}
	if len(p.Ties) > 0 {
		fmt.Fprintf(b, "%s: %d heads tie at that cut: %s\n", name, len(p.Ties), p.Ties)
	}
	if p.Scores != nil && p.Scores.At != nil && p.A == p.B {
		fmt.Fprintf(b, "%s: largest difference %.4g, at %s\n", name, p.Scores.Largest.Or(0), *p.Scores.At)
	}
	for _, x := range p.Past {
		fmt.Fprintf(b, "%s: past the tolerance: %s\n", name, x)
	}
}
