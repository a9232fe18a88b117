package harness

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headscope/headscope/stats"
)

func TestTypeSchema(t *testing.T) {
	type inner struct {
		Value stats.Value `json:"value"`
		Note  string      `json:"note,omitempty"`
	}
	b, err := TypeSchema("title", "words", struct {
		List   []inner        `json:"list"`
		Maybe  *float64       `json:"maybe"`
		Counts map[string]int `json:"counts"`
		Hidden int            `json:"-"`
	}{})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Required   []string
		Additional bool `json:"additionalProperties"`
		Properties map[string]map[string]any
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	items := got.Properties["list"]["items"].(map[string]any)
	if got.Additional || strings.Join(got.Required, " ") != "list maybe counts" || len(got.Properties) != 3 {
		t.Errorf("got %s", b)
	}
	if r := items["required"].([]any); len(r) != 1 || r[0] != "value" {
		t.Errorf("got %v", items)
	}
	for _, bad := range []any{struct{ NoName int }{}, struct {
		F func() `json:"f"`
	}{}} {
		if b, err := TypeSchema("t", "d", bad); err == nil {
			t.Errorf("%T: got %s", bad, b)
		}
	}
}
