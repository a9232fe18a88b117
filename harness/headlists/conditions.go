package headlists

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

// ConditionPair is one condition in two results. The intervals are each result's own; the prompts need not be the same.
type ConditionPair struct {
	Name    string         `json:"name"`
	RecallA harness.Metric `json:"recall_a"`
	RecallB harness.Metric `json:"recall_b"`
	MarginA harness.Metric `json:"margin_a"`
	MarginB harness.Metric `json:"margin_b"`
	Past    []string       `json:"past"` // what lies past the tolerance
}

// conditions sets the conditions of two results of ours side by side; lists of other kinds have none.
func (c *Comparison) conditions(docs []*heads.Document) error {
	var results []*harness.Result
	for _, d := range docs {
		data, err := os.ReadFile(d.Path)
		if err != nil {
			return err
		}
		var head struct {
			Plan json.RawMessage `json:"plan"`
			Key  string          `json:"key"`
		}
		if d.Format != heads.FormatResult || json.Unmarshal(data, &head) != nil || len(head.Plan) == 0 || bytes.Equal(head.Plan, []byte("null")) || head.Key == "" {
			return nil
		}
		r, err := harness.ReadResult(d.Path)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	for i := range results[0].Conditions {
		a := &results[0].Conditions[i]
		for j := range results[1].Conditions {
			if b := &results[1].Conditions[j]; a.Name == b.Name {
				p := ConditionPair{a.Name, a.Metrics.Recall, b.Metrics.Recall, a.Metrics.Margin, b.Metrics.Margin, []string{}}
				c.holdRecall(&p)
				c.Conditions = append(c.Conditions, p)
			}
		}
	}
	return nil
}

func (c *Comparison) holdRecall(p *ConditionPair) {
	if c.Tolerance == nil {
		return
	}
	a, b := float64(p.RecallA.Value), float64(p.RecallB.Value)
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return
	case math.IsNaN(a) || math.IsNaN(b):
		p.Past = append(p.Past, "one recall is not known")
	case math.Abs(a-b) > *c.Tolerance+slack:
		p.Past = append(p.Past, fmt.Sprintf("recall differs by %.4g", math.Abs(a-b)))
	default:
		return
	}
	c.Past++
}
