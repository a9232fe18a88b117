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
)

// FrequencyView says how Frequencies are printed.
type FrequencyView struct {
	Top int  // heads listed, the narrowest bands first
	Map bool // also every head's profile, a character a plane
}

// Write prints the heads whose product is in the narrowest band.
func (f *Frequencies) Write(w io.Writer, v FrequencyView) error {
	var b strings.Builder
	m := f.Model
	fmt.Fprintf(&b, "%s  %d heads, %d prompts, %d tokens, %s", m.Ref, len(f.Heads), len(f.Prompts.IDs), f.Tokens, f.Run.DType)
	if n := len(f.Unrotated); n > 0 {
		fmt.Fprintf(&b, "; %d layers do not rotate and are left out", n)
	}
	b.WriteString("\n\n")
	order := make([]*PlaneProfile, len(f.Heads))
	for i := range f.Heads {
		order[i] = &f.Heads[i]
	}
	slices.SortStableFunc(order, func(a, b *PlaneProfile) int { return cmp.Compare(b.BandMass, a.BandMass) })
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "head\tplane\tfrequency\twavelength\t|q|\t|k|\t|q||k|\tshare\tband\t")
	var none []string
	for _, p := range order[:min(v.Top, len(order))] {
		if p.Dominant == nil {
			fmt.Fprintf(tw, "%s\tnone\t-\t-\t-\t-\t-\t-\t-\t\n", p.Head)
			none = append(none, p.Head.String())
			continue
		}
		at := *p.Dominant
		fmt.Fprintf(tw, "%s\t%d\t%.4g\t%s\t%.4g\t%.4g\t%.4g\t%.3f\t%.3f\t\n", p.Head, at, float64(p.Frequency), tokens(p.Wavelength),
			p.Q[at], p.K[at], p.Product[at], p.Profile[at], float64(p.BandMass))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if rest := len(order) - v.Top; rest > 0 {
		fmt.Fprintf(&b, "... and %d other heads\n", rest)
	}
	fmt.Fprintf(&b, "plane: the one with the largest |q||k|; share: its part of the sum over planes; band: with %d planes on either side.\n", BandReach)
	if len(none) > 0 {
		fmt.Fprintf(&b, "none: queries or keys of %s are 0 in every plane.\n", strings.Join(none, ", "))
	}
	if v.Map {
		f.heatMap(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shades of a share, relative to the head's largest.
const shades = " .:-=+*#%@"

// heatMap draws each head's profile from its fastest plane to its slowest.
func (f *Frequencies) heatMap(b *strings.Builder) {
	fmt.Fprintf(b, "\nprofiles, fastest plane to the left, the head's largest plane is %c\n", shades[len(shades)-1])
	for i := range f.Heads {
		p := &f.Heads[i]
		largest := slices.Max(p.Profile)
		fmt.Fprintf(b, "%8s |", p.Head)
		for _, plane := range f.Tables[p.Table].Order {
			shade := 0
			if largest > 0 {
				shade = int(math.Round(p.Profile[plane] / largest * float64(len(shades)-1)))
			}
			b.WriteByte(shades[shade])
		}
		fmt.Fprintf(b, "| %s\n", tokens(p.Wavelength))
	}
}

func tokens(n harness.Number) string {
	if math.IsNaN(float64(n)) {
		return "none"
	}
	return fmt.Sprintf("%.4g", float64(n))
}
