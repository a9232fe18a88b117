package harness

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// BandsResult is what the bands stage says beside its conditions and effects.
type BandsResult struct {
	Protocol string        `json:"protocol"`
	Focus    int           `json:"focus"`    // dimensions of the band that has all controls
	Siblings heads.Set     `json:"siblings"` // published protocol: query heads outside of the set that see the changed keys
	Skipped  heads.Set     `json:"skipped"`  // heads of layers without rotation
	Distance BandDistance  `json:"distance"`
	Rows     []BandRow     `json:"rows"`
	Matches  []BandMatch   `json:"matches"`
	NoPlanes string        `json:"no_planes,omitempty"` // why there are no matched planes
	Windows  []BandWindows `json:"windows"`             // the frequency signature, by scope
}

// BandDistance is how far the needle's first token lies before the last row of the tested prompts, in tokens.
type BandDistance struct {
	Mean    Number `json:"mean"`
	Largest int    `json:"largest"`
}

// BandRow is one band under one operation.
type BandRow struct {
	Condition string        `json:"condition"`
	Band      string        `json:"band"`
	Op        string        `json:"op"`
	Scope     decoder.Scope `json:"scope"`
	Angle     Number        `json:"angle"`      // radians that its fastest plane turns over the largest needle distance
	MeanAngle Number        `json:"mean_angle"` // over the mean one
	Rotation  bool          `json:"rotation"`   // the angle reaches 0.1: else nothing about the band is about rotation
	Recall    Number        `json:"recall"`
	Drop      Number        `json:"drop"` // of the primary outcome
	Controls  []BandControl `json:"controls"`
	NoOp      string        `json:"no_op,omitempty"` // the condition's, with the reason where it is known
}

// BandControl is a row's drop beside those of its controls of one pool.
type BandControl struct {
	Pool     string  `json:"pool"`
	Controls int     `json:"controls"`
	Drop     Number  `json:"mean_drop"`
	P        *Number `json:"p"`
	Reason   string  `json:"reason,omitempty"`
}

// BandWindows is where in the spectrum windows of planes matter, as published: the mean and the spread of the windows' centres, weighted by
// their drops; 0 is the slowest plane, 1 the fastest.
type BandWindows struct {
	Scope  decoder.Scope `json:"scope"`
	Of     string        `json:"of"` // recall, as published, or the primary outcome
	Center Number        `json:"center"`
	Width  Number        `json:"width"`
	Reason string        `json:"reason,omitempty"`
}

func (b *PlanBands) fill(e *evidence, t *target, res *Result, _ map[string][]Trial) error {
	if len(t.heads) == 0 {
		return nil
	}
	out := &BandsResult{Protocol: b.Protocol, Focus: b.Focus, Siblings: heads.Set{}, Skipped: heads.NewSet(t.skipped...), Rows: []BandRow{}, Matches: []BandMatch{}, NoPlanes: b.NoPlanes, Windows: []BandWindows{}}
	if b.Protocol == ProtocolPublished {
		out.Siblings = t.heads.KVSiblings(e.shape.Heads / e.shape.KVHeads).Minus(t.heads)
	}
	sum := 0
	for i := range e.tests {
		d := len(e.tests[i].IDs) - 1 - e.tests[i].Needle[0]
		sum, out.Distance.Largest = sum+d, max(out.Distance.Largest, d)
	}
	out.Distance.Mean = Number(float64(sum) / float64(max(1, len(e.tests))))
	matches, err := b.matches(e, t)
	if err != nil {
		return err
	}
	for _, k := range b.K {
		for _, pool := range matchedPools {
			if m := matches[matchOf{pool, k}]; m != nil {
				out.Matches = append(out.Matches, *m)
			}
		}
	}
	for i := range res.Conditions {
		c := &res.Conditions[i]
		if c.Stage != StageBands || c.ControlOf != "" || c.Name == baseline {
			continue
		}
		row, err := b.row(e, t, c, out.Distance)
		if err != nil {
			return err
		}
		row.controls(res.Effects)
		if row.NoOp = c.NoOp; row.NoOp != "" && b.still(t, &row) {
			row.NoOp = doNotTurn
		}
		out.Rows = append(out.Rows, row)
	}
	for _, scope := range b.Scopes {
		out.Windows = append(out.Windows, b.windows(e, res, scope)...)
	}
	res.Bands = out
	return nil
}

// row is a condition's angles and drop.
func (b *PlanBands) row(e *evidence, t *target, c *ConditionResult, d BandDistance) (BandRow, error) {
	name, _, _ := strings.Cut(c.Name, "@")
	op, band, _ := strings.Cut(name, "/")
	fastest, err := b.fastest(t, band)
	r := BandRow{Condition: c.Name, Band: band, Op: op, Scope: c.Scope, Angle: Number(fastest * float64(d.Largest)), MeanAngle: Number(fastest * float64(d.Mean)), Controls: []BandControl{}}
	r.Rotation = r.Angle >= cannotRotate
	r.Recall, r.Drop = c.Metrics.Recall.Value, Number(e.plan.drop(c))
	return r, err
}

func (r *BandRow) controls(effects []Effect) {
	for i := range effects {
		if e := &effects[i]; e.Condition == r.Condition {
			r.Controls = append(r.Controls, BandControl{e.Pool, e.Controls, e.ControlDrop, e.P, e.Reason})
		}
	}
}

// still tells whether an operation on turning is asked of planes that do not turn.
func (b *PlanBands) still(t *target, r *BandRow) bool {
	if r.Op != string(decoder.OpFreeze) && r.Op != string(opMirror) {
		return false
	}
	w, err := b.fastest(t, r.Band)
	return err == nil && w == 0
}

// windows are the centres of mass of the windows' drops at a scope.
func (b *PlanBands) windows(e *evidence, res *Result, scope decoder.Scope) []BandWindows {
	if len(b.Windows) == 0 {
		return nil
	}
	planes := float64(len(b.smallest().InvFreq))
	var out []BandWindows
	for _, of := range []string{"recall", e.plan.Primary.Metric} {
		sum, first, second := 0.0, 0.0, 0.0
		for _, band := range b.Windows {
			var from, to int
			fmt.Sscanf(band, "window%d-%d", &from, &to)
			x := float64(from+to+1) / 2 / planes
			c := res.condition(bandName(b.op(), band, scope))
			if c == nil || res.Metrics == nil {
				continue
			}
			drop := e.plan.drop(c)
			if of == "recall" {
				drop = float64(res.Metrics.Recall.Value) - float64(c.Metrics.Recall.Value)
			}
			drop = max(0, drop)
			sum, first, second = sum+drop, first+x*drop, second+x*x*drop
		}
		w := BandWindows{Scope: scope, Of: of, Center: nan, Width: nan}
		if sum > 0 {
			center := first / sum
			w.Center, w.Width = Number(center), Number(math.Sqrt(max(0, second/sum-center*center)))
		} else {
			w.Reason = "no window lowers it"
		}
		out = append(out, w)
	}
	return out
}

func (r *Result) condition(name string) *ConditionResult {
	for i := range r.Conditions {
		if r.Conditions[i].Name == name {
			return &r.Conditions[i]
		}
	}
	return nil
}

// bandPools are the columns of controls, in order.
var bandPools = []struct{ pool, title string }{
	{PoolLayer, "other heads"}, {PoolLayerKV, "other KV groups"}, {PoolRandomPlanes, "random planes"}, {PoolRandomDims, "random dims"}, {PoolVariance, "variance"},
	{PoolContribution, "contribution"}, {PoolNorm, "norm"}, {PoolTemperature, "temperature"},
}

// writeBands shows zero beside freeze beside each control's drop.
func (r *Result) writeBands(out *printer, v View) {
	if r.Bands == nil {
		return
	}
	about, rows := r.bandRows()
	for _, line := range about {
		out.line("%s", line)
	}
	out.grid(rows, v.Markdown)
	for _, note := range r.bandNotes() {
		out.line("%s", note)
	}
	out.line("")
}

// bandRows is the table of bands, and what it is about.
func (r *Result) bandRows() (about []string, rows [][]string) {
	b := r.Bands
	about = []string{
		fmt.Sprintf("Drop of %s by band of planes (%s): taken away, not turning (freeze), turning the wrong way round (mirror); beside them the mean", r.Plan.Primary.Metric, b.Protocol),
		"drop of the controls of taking away and, of 19 controls or more, their randomisation p. rad: the largest angle that the band turns over the",
		fmt.Sprintf("needle's distance (%d tokens at most, %.0f on average).", b.Distance.Largest, float64(b.Distance.Mean)),
	}
	head := []string{"band", "rad", "zero", "freeze", "mirror"}
	pools := slices.Clone(bandPools)
	pools = slices.DeleteFunc(pools, func(p struct{ pool, title string }) bool {
		return !slices.ContainsFunc(b.Rows, func(row BandRow) bool { return row.control(p.pool) != nil })
	})
	for _, p := range pools {
		head = append(head, p.title)
	}
	rows = [][]string{head}
	lines := map[string]int{}
	for i := range b.Rows {
		row := &b.Rows[i]
		key := row.Band + "@" + string(row.Scope)
		at, ok := lines[key]
		if !ok {
			at = len(rows)
			lines[key] = at
			cells := make([]string, len(head))
			for j := range cells {
				cells[j] = "-"
			}
			cells[0], cells[1] = row.Band+" @"+string(row.Scope), fmt.Sprintf("%.3g", float64(row.Angle))
			if !row.Rotation {
				cells[1] += " *"
			}
			rows = append(rows, cells)
		}
		column := map[string]int{"freeze": 3, "mirror": 4}[row.Op]
		if column == 0 {
			column = 2
			for j, p := range pools {
				if c := row.control(p.pool); c != nil && c.Controls > 0 {
					rows[at][5+j] = fixed(float64(c.Drop), 3)
					if c.P != nil {
						rows[at][5+j] += fmt.Sprintf(" p %.2g", float64(*c.P))
					}
					if b.unmatched(p.pool, row.Band) {
						rows[at][5+j] += " ~"
					}
				}
			}
		}
		rows[at][column] = fixed(float64(row.Drop), 3)
		if row.NoOp == unchanged || row.NoOp == doNotTurn {
			rows[at][column] = "no-op"
		}
	}
	return about, rows
}

func (r *BandRow) control(pool string) *BandControl {
	for i := range r.Controls {
		if r.Controls[i].Pool == pool {
			return &r.Controls[i]
		}
	}
	return nil
}

// unmatched tells whether a pool's controls of a band have heads without planes that match.
func (b *BandsResult) unmatched(pool, band string) bool {
	return slices.ContainsFunc(b.Matches, func(m BandMatch) bool {
		return m.Pool == pool && m.Band == band && slices.ContainsFunc(m.Heads, func(h BandMatchHead) bool { return h.Kind == patch.Unmatched })
	})
}

// bandNotes say what a reader of the table has to know.
func (r *Result) bandNotes() []string {
	b := r.Bands
	var n []string
	add := func(format string, args ...any) { n = append(n, fmt.Sprintf(format, args...)) }
	if slices.ContainsFunc(b.Rows, func(row BandRow) bool { return !row.Rotation }) {
		add("* below %g rad: cannot test rotation. What taking this band away does, it does not do through rotation.", cannotRotate)
	}
	if slices.ContainsFunc(b.Matches, func(m BandMatch) bool { return b.unmatched(m.Pool, m.Band) }) {
		add("~ no planes of some heads match the band's within 10 %%: what is taken away there is larger or smaller by the ratio below, and so there is no p.")
	}
	if len(b.Siblings) > 0 {
		add("Published protocol: %d query heads outside of the set see the changed keys too: %s.", len(b.Siblings), someHeads(b.Siblings))
	}
	if len(b.Skipped) > 0 {
		add("Skipped, as their layers do not rotate: %d heads, %s.", len(b.Skipped), someHeads(b.Skipped))
	}
	for i := range b.Rows {
		if row := &b.Rows[i]; row.NoOp != "" {
			add("%s", noOpNote(row.Condition, row.NoOp))
		}
	}
	if b.NoPlanes != "" {
		add("No planes matched on what they do: %s.", b.NoPlanes)
	}
	for i := range b.Matches {
		if m := &b.Matches[i]; m.Reason != "" || m.Band == slow(b.Focus) {
			add("%s", m.note())
		}
	}
	n = append(n, b.fewerPlanes()...)
	for _, w := range b.Windows {
		if w.Reason != "" {
			add("Windows @%s by %s: no centre, as %s.", w.Scope, w.Of, w.Reason)
			continue
		}
		add("Windows @%s by %s: centre %.2f, width %.2f of the order by speed (0 slowest, 1 fastest).", w.Scope, w.Of, float64(w.Center), float64(w.Width))
	}
	if len(b.Windows) > 0 {
		add("Every window is held against the same sets of as many random planes; centre and width themselves have no controls.")
	}
	return n
}

// fewerPlanes says where there are fewer sets of random planes or dimensions than asked for.
func (b *BandsResult) fewerPlanes() []string {
	var n []string
	for _, row := range b.Rows {
		for _, c := range row.Controls {
			if c.Pool != PoolRandomPlanes && c.Pool != PoolRandomDims || c.Reason == "" {
				continue
			}
			why := strings.TrimPrefix(strings.TrimPrefix(c.Reason, "needs >= 19 controls: "), "has no controls: ")
			line := fmt.Sprintf("%s, %s: %s.", map[string]string{PoolRandomPlanes: "Random planes", PoolRandomDims: "Random dimensions"}[c.Pool], row.Band, why)
			if why != c.Reason && !slices.Contains(n, line) {
				n = append(n, line)
			}
		}
	}
	return n
}

// note is a match in a line or two.
func (m *BandMatch) note() string {
	name := fmt.Sprintf("Planes, %s, %s: ", m.Pool, m.Band)
	if len(m.Heads) == 0 {
		return name + "none, " + m.Reason + "."
	}
	kinds := map[string]int{}
	low, high := math.Inf(1), math.Inf(-1)
	worst := []string{}
	for _, h := range m.Heads {
		kinds[h.Kind]++
		low, high = min(low, float64(h.Lowest)), max(high, float64(h.Highest))
		if h.Kind == patch.Unmatched && len(worst) < 5 {
			worst = append(worst, fmt.Sprintf("%s ratio %.2f", h.Head, float64(h.Ratio)))
		}
	}
	if m.Pool == PoolTemperature {
		return fmt.Sprintf("%sthe band away and the rest rescaled so that scores spread as before, row by row (published protocol: by one factor a head); on the detection prompts that is times %.2f to %.2f. One control, no p.", name, 1/high, 1/low)
	}
	var parts []string
	for _, k := range []string{patch.MatchedWhole, patch.MatchedFewer, patch.MatchedPartial, patch.Unmatched} {
		if kinds[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", kinds[k], k))
		}
	}
	text := fmt.Sprintf("%s%s; heads %s; a control's size over the band's %.2f to %.2f", name, map[bool]string{true: "1 control set", false: fmt.Sprintf("%d control sets", m.Sets)}[m.Sets == 1], strings.Join(parts, ", "), low, high)
	if len(worst) > 0 && m.Reason == "" {
		text += "; unmatched: " + strings.Join(worst, ", ")
	}
	if m.Reason != "" {
		text += "; " + m.Reason
	}
	return text + "."
}
