package harness

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// CardPlane is a plane that the head uses. The share is that of |q||k|, both means over all rows of the prompts shown, before rotation: it
// bounds what the plane can add to a score.
type CardPlane struct {
	Plane      int    `json:"plane"`
	Frequency  Number `json:"frequency"`  // radians a token
	Wavelength Number `json:"wavelength"` // tokens a turn; null where the plane does not turn
	Share      Number `json:"share"`
}

// cardPlanes is how many planes a card lists.
const cardPlanes = 4

// planeUse sums the norms of one head's planes over rows.
type planeUse struct {
	head   decoder.Head
	kv     int
	rows   int
	longer int // tokens of the longest prompt
	q, k   []float64
}

func (u *planeUse) add(ctx context.Context, m *decoder.Model, p *Passage) error {
	tr, err := m.Trace(ctx, p.ask(), nil, decoder.TraceOptions{Hidden: -1, Norms: true})
	if err != nil {
		return err
	}
	n := tr.Norms[u.head.Layer]
	width := len(n.Q) / m.Spec.Heads // the planes, and the dimensions that do not rotate
	if u.q == nil {
		u.q, u.k = make([]float64, width-1), make([]float64, width-1)
	}
	for i := range u.q {
		u.q[i] += float64(tr.T) * float64(n.Q[u.head.Index*width+i])
		u.k[i] += float64(tr.T) * float64(n.K[u.kv*width+i])
	}
	u.rows, u.longer = u.rows+tr.T, max(u.longer, tr.T)
	return nil
}

// card lists the planes with the largest products; none where the layer does not rotate.
func (u *planeUse) card(s *loader.Spec) ([]CardPlane, error) {
	t, err := decoder.RopeTable(s, u.head.Layer, u.longer)
	if err != nil || t == nil || u.rows == 0 {
		return []CardPlane{}, err
	}
	out := make([]CardPlane, 0, len(u.q))
	sum := 0.0
	for i := range u.q {
		p := CardPlane{Plane: i, Frequency: Number(t.InvFreq[i]), Wavelength: nan, Share: Number(u.q[i] * u.k[i])}
		if w := math.Abs(t.InvFreq[i]); w > 0 {
			p.Wavelength = Number(2 * math.Pi / w)
		}
		sum += float64(p.Share)
		out = append(out, p)
	}
	for i := range out {
		out[i].Share /= Number(sum)
	}
	slices.SortStableFunc(out, func(a, b CardPlane) int { return cmp.Compare(b.Share, a.Share) })
	return out[:min(len(out), cardPlanes)], nil
}

func (c *HeadCard) planesLine() string {
	if len(c.Planes) == 0 {
		return "its layer does not rotate"
	}
	var parts []string
	for _, p := range c.Planes {
		wave := "does not turn"
		if p.Wavelength == p.Wavelength {
			wave = fmt.Sprintf("wavelength %.4g", float64(p.Wavelength))
		}
		parts = append(parts, fmt.Sprintf("%d (%s) %s", p.Plane, wave, fixed(float64(p.Share), 2)))
	}
	return "planes with the largest |q||k|, and their shares: " + strings.Join(parts, ", ")
}
