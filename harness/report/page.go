package report

import (
	"fmt"
	"strings"

	"github.com/headscope/headscope/harness"
)

// page is all that the template writes.
type page struct {
	Title   string
	Partial string
	Facts   []string
	Links   []link

	Summary   summary
	Maps      []headMap
	Beside    bool // the small maps fit beside the large one
	KV        int  // query heads to a key/value head, 0 where there is nothing to rule
	Table     *headTable
	Detectors []table

	Curve       *forest // of heads that are kept
	Experiments []table

	Forest     *forest
	Outcomes   *outcomes
	Conditions []conditionRow
	Primary    string
	Grid       *needleGrid
	Variants   []variantRow
	Example    *example
	Scorers    []scorerRow
	Pools      []pool
	Methods    []fact
	Plan       []fact
	Hashes     []fact
	Machine    []fact
	Command    string
	Failures   failures
	Refused    failures
	NoCopy     failures
	Glossary   []fact
	Tool       string
}

// link leads to a section of the page.
type link struct{ ID, Text string }

func newPage(r *harness.Result, o Options) *page {
	p := &page{
		Title: o.Title, Facts: facts(r), Summary: newSummary(r), Maps: headMaps(r), Table: newHeadTable(r), Detectors: detectorTables(r), Forest: newForest(r),
		Outcomes: newOutcomes(r), Conditions: conditionRows(r), Primary: metricName(r.Plan.Primary.Metric), Grid: newGrid(r), Variants: variantRows(r),
		Example: newExample(r), Scorers: scorerRows(r), Curve: newCurve(r), Experiments: experimentTables(r), Pools: pools(r), Methods: methods(r), Plan: planFacts(r), Hashes: hashes(r),
		Machine: environmentFacts(r), Command: command(r), Failures: newFailures(r.Failures), Refused: newFailures(r.Refused),
		Glossary: glossary, Tool: r.Tool.Name + " " + r.Tool.Version,
	}
	if r.Detection != nil {
		p.NoCopy = newFailures(r.Detection.NoCopyTF)
	}
	p.Beside = len(p.Maps) > 0 && p.Maps[0].MaxWidth <= 420
	if p.Title == "" {
		p.Title = title(r)
	}
	if r.Prompts.Limit > 0 {
		p.Partial = fmt.Sprintf("partial: the first %d prompts only", r.Prompts.Limit)
	}
	if kv := r.Model.KVHeads; kv > 1 && kv < r.Model.Heads && r.Model.Heads%kv == 0 {
		p.KV = r.Model.Heads / kv
	}
	p.Links = p.links()
	return p
}

func title(r *harness.Result) string {
	what := map[string]string{"study": "study of retrieval heads", "detect": "retrieval heads", "knockout": "heads switched off"}[r.Verb]
	if what == "" {
		what = r.Verb
	}
	return strings.Trim(lastPart(r.Model.Ref)+": "+what, ": ")
}

// facts is the line below the title.
func facts(r *harness.Result) []string {
	m := r.Model
	out := []string{fmt.Sprintf("%d layers \u00d7 %d heads (%d key/value)", m.Layers, m.Heads, m.KVHeads)}
	if d := r.Plan.Run.DType; d != "" {
		out = append(out, d)
	}
	if d := r.Environment.Hardware.About; d != "" {
		out = append(out, d)
	}
	out = append(out, fmt.Sprintf("%s of %s, %d\u2013%d tokens", count(r.Prompts.N, "prompt"), r.Prompts.Source, r.Prompts.Shortest, r.Prompts.Longest),
		count(r.N.Planned, "trial"))
	if r.Key != "" {
		out = append(out, "key "+r.Key)
	}
	return out
}

// links are the sections that the page has.
func (p *page) links() []link {
	out := []link{{"summary", "In plain words"}}
	for _, x := range []struct {
		on   bool
		link link
	}{
		{len(p.Maps) > 0 || p.Table != nil, link{"heads", "Heads"}},
		{len(p.Detectors) > 0, link{"detectors", "Detectors"}},
		{p.Forest != nil || p.Outcomes != nil, link{"conditions", "Conditions"}},
		{len(p.Experiments) > 0, link{"experiments", "Bands, tables, heads kept"}},
		{p.Grid != nil || len(p.Variants) > 0, link{"prompts", "Needle grid"}},
		{p.Example != nil, link{"example", "One prompt"}},
		{len(p.Scorers) > 0, link{"scorers", "Scorers"}},
		{len(p.Pools) > 0, link{"controls", "Controls"}},
		{true, link{"methods", "Methods"}},
		{true, link{"plan", "Plan and machine"}},
		{len(p.Failures.Rows)+len(p.Refused.Rows)+len(p.NoCopy.Rows) > 0, link{"failures", "Left out"}},
		{true, link{"glossary", "Terms"}},
	} {
		if x.on {
			out = append(out, x.link)
		}
	}
	return out
}
