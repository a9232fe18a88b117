package harness

import (
	"strconv"

	"github.com/headscope/headscope/harness/npz"
)

// exportedTable is a CSV file of a part that not every result has.
type exportedTable struct {
	name string
	rows [][]string
}

// parts are the tables of bands, depths, kept heads and texts, as far as the result has them.
func (x *exported) parts() []exportedTable {
	var out []exportedTable
	if x.r.Bands != nil {
		out = append(out, exportedTable{"bands.csv", x.bandRows()})
	}
	if len(x.r.Depths) > 0 {
		out = append(out, exportedTable{"depths.csv", x.depthRows()})
	}
	if x.r.Keep != nil {
		out = append(out, exportedTable{"keep.csv", x.keepRows()})
	}
	if len(x.r.Texts) > 0 {
		out = append(out, exportedTable{"texts.csv", x.textRows()})
	}
	return out
}

// bandRows is a row a band and operation; controls are in effects.csv.
func (x *exported) bandRows() [][]string {
	rows := [][]string{{"condition", "band", "op", "scope", "angle", "mean_angle", "can_test_rotation", "recall", "drop", "no_op"}}
	for _, b := range x.r.Bands.Rows {
		rows = append(rows, []string{b.Condition, b.Band, b.Op, string(b.Scope), csvNumber(float64(b.Angle)), csvNumber(float64(b.MeanAngle)), strconv.FormatBool(b.Rotation),
			csvNumber(float64(b.Recall)), csvNumber(float64(b.Drop)), b.NoOp})
	}
	return rows
}

// depthRows is a row a condition and group of depths: each depth, far, near, and far minus near.
func (x *exported) depthRows() [][]string {
	rows := [][]string{append([]string{"condition", "group", "from", "to", "n"}, metricColumns("recall", "margin", "sum_logprob")...)}
	for i := range x.r.Depths {
		d := &x.r.Depths[i]
		add := func(group string, cells []string, metrics ...*Metric) {
			row := append([]string{d.Condition, group}, cells...)
			for _, m := range metrics {
				row = append(row, metricCells(m)...)
			}
			rows = append(rows, row)
		}
		group := func(name string, g *DepthGroup) {
			add(name, []string{csvNumber(float64(g.From)), csvNumber(float64(g.To)), strconv.Itoa(g.N)}, &g.Recall, &g.Margin, &g.SumLogProb)
		}
		for j := range d.Depths {
			group("depth", &d.Depths[j])
		}
		group("far", &d.Far)
		group("near", &d.Near)
		add("far_minus_near", []string{"", "", strconv.Itoa(d.Far.N + d.Near.N)}, &d.Recall, &d.Margin, &d.SumLogProb)
	}
	return rows
}

// keepRows is a row a size and pool, the set's own first.
func (x *exported) keepRows() [][]string {
	rows := [][]string{{"condition", "size", "share", "pool", "sets", "recall", "primary", "highest_primary", "at_least", "p", "reason"}}
	for _, pt := range x.r.Keep.Points {
		head := []string{pt.Condition, strconv.Itoa(pt.Size), csvNumber(pt.Share)}
		rows = append(rows, append(head[:3:3], "set", "1", csvNumber(float64(pt.Recall.Value)), csvNumber(float64(pt.Primary.Value)), "", "", "", pt.Primary.Reason))
		for _, c := range pt.Controls {
			p := ""
			if c.P != nil {
				p = csvNumber(float64(*c.P))
			}
			rows = append(rows, append(head[:3:3], c.Pool, strconv.Itoa(c.Sets), csvNumber(float64(c.Recall)), csvNumber(float64(c.Primary)), csvNumber(float64(c.Highest)), strconv.Itoa(c.AtLeast), p, c.Reason))
		}
	}
	return rows
}

func (x *exported) textRows() [][]string {
	rows := [][]string{append([]string{"condition", "documents"}, metricColumns("nll", "perplexity", "tax", "kl")...)}
	for i := range x.r.Texts {
		t := &x.r.Texts[i]
		row := []string{t.Name, strconv.Itoa(len(t.Documents))}
		for _, m := range []*Metric{&t.NLL, &t.Perplexity, t.Tax, t.KL} {
			row = append(row, metricCells(m)...)
		}
		rows = append(rows, row)
	}
	return rows
}

// npzParts name what stands along the axes of those arrays.
type npzParts struct {
	Bands      []string  `json:"bands,omitempty"`        // conditions, axis 0 of bands/*
	Depths     []string  `json:"depths,omitempty"`       // conditions, axis 0 of depths/*
	DepthsOf   []float64 `json:"depth_values,omitempty"` // axis 1 of depths/*
	DepthPairs []string  `json:"depth_groups,omitempty"` // axis 1 of depth_groups/*
	Keep       []string  `json:"keep,omitempty"`         // conditions, axis 0 of keep/*
	KeepPools  []string  `json:"keep_pools,omitempty"`   // axis 1 of keep/*
	Texts      []string  `json:"texts,omitempty"`        // conditions, axis 0 of texts/*
	Documents  []string  `json:"documents,omitempty"`    // axis 1 of texts/document_nll
}

// partEntries are the same tables as arrays; NaN where a number is undefined.
func (x *exported) partEntries() (out []npz.Entry, names npzParts) {
	matrix := func(name string, columns int, data []float64) {
		out = append(out, npz.Entry{Name: name, Shape: []int{len(data) / max(1, columns), columns}, Data: data})
	}
	list := func(name string, data []float64) {
		out = append(out, npz.Entry{Name: name, Shape: []int{len(data)}, Data: data})
	}
	if b := x.r.Bands; b != nil {
		var angle, recall, drop []float64
		for _, r := range b.Rows {
			names.Bands = append(names.Bands, r.Condition)
			angle, recall, drop = append(angle, float64(r.Angle)), append(recall, float64(r.Recall)), append(drop, float64(r.Drop))
		}
		list("bands/angle", angle)
		list("bands/recall", recall)
		list("bands/drop", drop)
	}
	if d := x.r.Depths; len(d) > 0 {
		names.DepthPairs = []string{"far", "near"}
		for _, g := range d[0].Depths {
			names.DepthsOf = append(names.DepthsOf, float64(g.From))
		}
		for _, m := range []struct {
			name string
			of   func(g *DepthGroup) Metric
		}{{"recall", func(g *DepthGroup) Metric { return g.Recall }}, {"margin", func(g *DepthGroup) Metric { return g.Margin }}, {"sum_logprob", func(g *DepthGroup) Metric { return g.SumLogProb }}} {
			var each, pairs []float64
			for i := range d {
				for j := range d[i].Depths {
					each = append(each, float64(m.of(&d[i].Depths[j]).Value))
				}
				pairs = append(pairs, float64(m.of(&d[i].Far).Value), float64(m.of(&d[i].Near).Value))
			}
			matrix("depths/"+m.name, len(names.DepthsOf), each)
			matrix("depth_groups/"+m.name, 2, pairs)
		}
		for i := range d {
			names.Depths = append(names.Depths, d[i].Condition)
		}
	}
	if k := x.r.Keep; k != nil {
		names.KeepPools = append([]string{"set"}, keepPools[:]...)
		var share, recall, primary []float64
		for _, p := range k.Points {
			names.Keep, share = append(names.Keep, p.Condition), append(share, p.Share)
			recall, primary = append(recall, float64(p.Recall.Value)), append(primary, float64(p.Primary.Value))
			for _, pool := range keepPools {
				r, m := nan, nan
				for _, c := range p.Controls {
					if c.Pool == pool {
						r, m = c.Recall, c.Primary
					}
				}
				recall, primary = append(recall, float64(r)), append(primary, float64(m))
			}
		}
		list("keep/share", share)
		matrix("keep/recall", len(names.KeepPools), recall)
		matrix("keep/primary", len(names.KeepPools), primary)
	}
	if len(x.r.Texts) > 0 {
		var nll, documents []float64
		for i, t := range x.r.Texts {
			names.Texts, nll = append(names.Texts, t.Name), append(nll, float64(t.NLL.Value))
			for j, d := range t.Documents {
				if i == 0 {
					names.Documents = append(names.Documents, x.r.Plan.Texts.Texts[j].ID)
				}
				documents = append(documents, float64(d.NLL))
			}
		}
		list("texts/nll", nll)
		matrix("texts/document_nll", len(names.Documents), documents)
	}
	return out, names
}
