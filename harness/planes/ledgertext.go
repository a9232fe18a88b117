package planes

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/ledger"
)

// shownPlanes is how many planes of a head Write lists.
const shownPlanes = 8

// Write prints each head's balance at the last row, its largest planes, and the edits.
func (l *Ledger) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d prompts, %s\n", l.Model.Ref, len(l.Prompts.IDs), l.Run.DType)
	for i := range l.Heads {
		if err := l.Heads[i].write(&b); err != nil {
			return err
		}
	}
	if len(l.Edits) > 0 {
		b.WriteString("\nedits, predicted from the unmodified run | measured; means over prompts\n")
		tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "score code-rest\tattention on needle\tbefore\tlogit code-decoy\tlog p\tworst score\t  edit")
		for _, e := range l.Edits {
			m := &e.Mean
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", m.Score.text(), m.Attention.text(), decimals(m.Before), m.Logit.text(), m.LogProb.text(), worst(m), e.Edit)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		for _, e := range l.Edits {
			if e.Mean.Reason == overflow {
				fmt.Fprintf(&b, "%s: %s.\n", e.Edit, overflow)
			}
		}
		if n := len(l.Skipped); n > 0 {
			fmt.Fprintf(&b, "skipped by edits of planes and tables, as their layers do not rotate: %d heads, %s.\n", n, l.Skipped)
		}
		fmt.Fprintf(&b, "worst score: largest difference between a predicted and a measured score, of scores up to the second number.\n"+
			"scores and attention are predicted up to the rounding of %s, logits and log p (nats) to first order by a gradient.\n", l.Run.DType)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (h *LedgerHead) write(b *strings.Builder) error {
	fmt.Fprintf(b, "\n%s, mean score at the last row of the code's tokens minus that of the keys outside of the needle: %+.3f (whole needle %+.3f)\n",
		h.Head, h.Last.Code, h.Last.Needle)
	order := make([]int, len(h.Last.Planes))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(h.Last.Planes[i].CodeContent + h.Last.Planes[i].CodeRotation) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	shown := min(shownPlanes, len(order))
	tw := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "plane\twavelength\tcontent\trotation\tsum\tcommon to all keys\t")
	var rest ledger.PlaneEntry
	for place, i := range order {
		e := h.Last.Planes[i]
		if place >= shown {
			rest.CodeContent += e.CodeContent
			rest.CodeRotation += e.CodeRotation
			rest.Offset += e.Offset
			continue
		}
		name, turn := fmt.Sprint(i), "none"
		switch {
		case i == len(h.Last.Planes)-1:
			name = "unrotated"
		case len(h.InvFreq) > 0:
			turn = tokens(wavelength(h.InvFreq[i]))
		}
		writePlane(tw, &e, name, turn)
	}
	writePlane(tw, &rest, "others", "")
	return tw.Flush()
}

func writePlane(w io.Writer, e *ledger.PlaneEntry, name, turn string) {
	fmt.Fprintf(w, "%s\t%s\t%+.3f\t%+.3f\t%+.3f\t%+.3f\t\n", name, turn, e.CodeContent, e.CodeRotation, e.CodeContent+e.CodeRotation, e.Offset)
}

func (p *Prediction) text() string { return decimals(p.Predicted) + " | " + decimals(p.Measured) }

func decimals(n harness.Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%+.4f", float64(n))
}

func worst(m *LedgerEffect) string {
	if math.IsNaN(float64(m.Worst)) {
		return "-"
	}
	return fmt.Sprintf("%.1e of %.3g", float64(m.Worst), float64(m.Scale))
}
