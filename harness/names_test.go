package harness

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// TestNames: two conditions of one name, a scope given twice and a knockout of nothing are refused before anything is computed.
func TestNames(t *testing.T) {
	zero := []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 1, Index: 1}}, Scope: decoder.ScopeAll}}
	for name, change := range map[string]func(*Options){
		"scope twice":            func(o *Options) { o.Scopes = []decoder.Scope{decoder.ScopeAll, decoder.ScopeAll} },
		"no scope":               func(o *Options) { o.Scopes = nil },
		"condition twice":        func(o *Options) { o.Conditions = []NamedEdits{{"x", zero}, {"x", zero}} },
		"as the baseline":        func(o *Options) { o.Conditions = []NamedEdits{{baseline, zero}} },
		"as the knock-out":       func(o *Options) { o.Conditions = []NamedEdits{{"without@question", zero}} },
		"as one of its controls": func(o *Options) { o.Conditions = []NamedEdits{{"control0@all", zero}} },
	} {
		o := tinyOptions(t, 2)
		change(&o)
		var usage *UsageError
		if _, err := NewStudy(context.Background(), o); !errors.As(err, &usage) {
			t.Errorf("%s: got %v, want a usage error", name, err)
		}
	}
	o := tinyOptions(t, 2)
	o.Conditions = []NamedEdits{{"control@all", zero}} // the study's own have a number
	if _, err := NewStudy(context.Background(), o); err != nil {
		t.Error(err)
	}
}

// TestUndefinedEffect: a drop that is not a number leaves no p, and says so.
func TestUndefinedEffect(t *testing.T) {
	conds := []ConditionResult{{Name: "without@all", Scope: "all", Metrics: Metrics{Change: &Metric{Value: -5}}}}
	for range 19 {
		conds = append(conds, ConditionResult{Name: "c", ControlOf: "without@all", Pool: PoolLayer, Metrics: Metrics{Change: &Metric{Value: -1}}})
	}
	compared := make([]condition, len(conds))
	compared[0].compared = []comparison{{pool: PoolLayer}}
	conds[7].Metrics.Change.Value = Number(math.NaN())
	if e := effects(&Plan{Primary: PlanPrimary{Metric: metricSum}}, compared, conds); len(e) != 1 || e[0].P != nil || e[0].Reason == "" {
		t.Errorf("got %+v, want no p and a reason", e)
	}
}
