package planes

import (
	"encoding/json"
	"fmt"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/rope"
)

// RecheckFrequencies computes of stored frequencies what follows from the mean norms and the tables: key, wavelengths, products, bands.
func RecheckFrequencies(path string, data []byte) (*harness.Check, error) {
	f := new(Frequencies)
	if err := json.Unmarshal(data, f); err != nil {
		return nil, harness.Damaged(path, err)
	}
	var tables []PlaneTable
	for _, t := range f.Tables {
		again := planeTable(&rope.Table{InvFreq: t.InvFreq})
		again.Layers = t.Layers
		tables = append(tables, again)
	}
	var heads []PlaneProfile
	for _, p := range f.Heads {
		if p.Table < 0 || p.Table >= len(tables) || len(p.Q) != len(tables[p.Table].InvFreq) || len(p.K) != len(p.Q) {
			return nil, harness.Damaged(path, fmt.Errorf("%s: table %d of %d, %d and %d planes", p.Head, p.Table, len(tables), len(p.Q), len(p.K)))
		}
		p.use(&tables[p.Table])
		heads = append(heads, p)
	}
	c := &harness.Check{Path: path, Trials: "its mean norms", Left: []harness.Unchecked{
		{Path: "heads[].q, k, rest_q, rest_k", Why: "means over all rows of the prompts: only the model gives them"},
		{Path: "tables[].inv_freq", Why: "the model's"},
	}}
	key, err := f.KeyOf(f.decides())
	if err != nil {
		return nil, err
	}
	if err := c.Compare("key", f.Key, key); err != nil {
		return nil, err
	}
	if err := c.Compare("tables", following(f.Tables), following(tables)); err != nil {
		return nil, err
	}
	return c, c.Compare("heads", profiles(f.Heads), profiles(heads))
}

// following and profiles leave out what is taken over.
func following(tables []PlaneTable) []PlaneTable {
	out := append([]PlaneTable(nil), tables...)
	for i := range out {
		out[i].Layers, out[i].InvFreq = nil, nil
	}
	return out
}

func profiles(heads []PlaneProfile) []PlaneProfile {
	out := append([]PlaneProfile(nil), heads...)
	for i := range out {
		p := &out[i]
		p.Q, p.K, p.RestQ, p.RestK, p.Table = nil, nil, 0, 0, 0
	}
	return out
}

// RecheckLedger computes of a stored ledger what follows from its entries and from each prompt's effects: key, sums over planes, means.
func RecheckLedger(path string, data []byte) (*harness.Check, error) {
	l := new(Ledger)
	if err := json.Unmarshal(data, l); err != nil {
		return nil, harness.Damaged(path, err)
	}
	c := &harness.Check{Path: path, Trials: "its entries", Left: []harness.Unchecked{
		{Path: "heads[].last.planes, answer.planes, inv_freq", Why: "means over prompts of what queries and keys give: only the model has them"},
		{Path: "edits[].prompts", Why: "each is a run of the model"},
	}}
	key, err := l.KeyOf(l.Asked)
	if err != nil {
		return nil, err
	}
	if err := c.Compare("key", l.Key, key); err != nil {
		return nil, err
	}
	var sums, again [][4]float64
	for _, h := range l.Heads {
		code, needle := h.Last.Sums()
		later, laterNeedle := h.Answer.Sums()
		sums = append(sums, [4]float64{h.Last.Code, h.Last.Needle, h.Answer.Code, h.Answer.Needle})
		again = append(again, [4]float64{code, needle, later, laterNeedle})
	}
	if err := c.Compare("heads", sums, again); err != nil {
		return nil, err
	}
	var means, meansAgain []LedgerEffect
	for _, e := range l.Edits {
		if len(e.Prompts) != len(l.Prompts.IDs) {
			return nil, harness.Damaged(path, fmt.Errorf("edit %s: %d prompts, want %d", e.Edit, len(e.Prompts), len(l.Prompts.IDs)))
		}
		means, meansAgain = append(means, e.Mean), append(meansAgain, meanEffect(e.Prompts))
	}
	return c, c.Compare("edits", means, meansAgain)
}
