package harness

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// exportedRun is one run for all tests of exports: each has files of its own.
var exportedRun struct {
	once           sync.Once
	res            *Result
	result, trials []byte
}

func exportedResult(t *testing.T) *Result {
	exportedRun.once.Do(func() {
		o := tinyOptions(t, 4)
		o.Threshold, o.DetectPrompts = 0.01, shifted(t, 3)
		_, r := runStudy(t, o)
		exportedRun.res, exportedRun.result, exportedRun.trials = r, readFile(t, r.Path), readFile(t, TrialsOf(r.Path))
	})
	if exportedRun.trials == nil {
		t.Fatal("the run to export failed")
	}
	r := *exportedRun.res
	r.Path = filepath.Join(t.TempDir(), filepath.Base(r.Path))
	for path, data := range map[string][]byte{r.Path: exportedRun.result, TrialsOf(r.Path): exportedRun.trials} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &r
}

func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll() // refuses rows of another length
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, row := range all[1:] {
		m := map[string]string{}
		for i, name := range all[0] {
			m[name] = row[i]
		}
		if len(m) != len(all[0]) {
			t.Errorf("%s: two columns of one name: %v", path, all[0])
		}
		out = append(out, m)
	}
	return out
}

// TestExportCSV: the tables hold what the result says.
func TestExportCSV(t *testing.T) {
	r := exportedResult(t)
	paths, err := Export(r.Path, ExportCSV, "")
	if err != nil || len(paths) != 5 {
		t.Fatalf("got %v, %v", paths, err)
	}
	table := func(name string) []map[string]string {
		return readCSV(t, filepath.Join(strings.TrimSuffix(r.Path, ".json")+"_csv", name))
	}
	rows := table("heads.csv")
	if len(rows) != r.Model.Layers*r.Model.Heads {
		t.Fatalf("%d heads", len(rows))
	}
	detected := 0
	for i, row := range rows {
		for _, s := range r.Detection.Scores {
			if got, err := strconv.ParseFloat(row[s.Detector], 64); err != nil || got != s.Data[i] {
				t.Errorf("%s of head %d: got %s, want %g", s.Detector, i, row[s.Detector], s.Data[i])
			}
		}
		if row["detected"] == "true" {
			detected++
			if row["class"] == "" || row["hits_on"] == "" {
				t.Errorf("a detected head without class or label: %v", row)
			}
		}
	}
	if detected != len(r.Detection.Heads) || detected == 0 {
		t.Errorf("%d heads detected, want %d", detected, len(r.Detection.Heads))
	}
	rows = table("conditions.csv")
	if len(rows) != len(r.Conditions) {
		t.Fatalf("%d conditions", len(rows))
	}
	for i, c := range r.Conditions {
		if rows[i]["condition"] != c.Name || rows[i]["sum_logprob"] != csvNumber(float64(c.Metrics.SumLogProb.Value)) || rows[i]["planned"] != strconv.Itoa(c.N.Planned) {
			t.Errorf("got %v, want %+v", rows[i], c)
		}
	}
	if n := len(table("trials.csv")); n != 3+4*(len(r.Conditions)-1) {
		t.Errorf("%d trials", n)
	}
	if n := len(table("effects.csv")); n != len(r.Effects) {
		t.Errorf("%d effects", n)
	}
	sum := 0.0
	for _, row := range table("trials.csv") {
		if row["condition"] == "without@all" {
			x, err := strconv.ParseFloat(row["sum_logprob"], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += x / 4
		}
	}
	for _, c := range r.Conditions {
		if c.Name == "without@all" && abs(sum-float64(c.Metrics.SumLogProb.Value)) > 1e-12 {
			t.Errorf("mean of the trials %g, the result says %g", sum, c.Metrics.SumLogProb.Value)
		}
	}
}

// exportsParts exports a result and counts the rows of the tables that only some results have, and the arrays of the archive.
func exportsParts(t *testing.T, r *Result, rows map[string]int) {
	t.Helper()
	paths, err := Export(r.Path, ExportCSV, "")
	if err != nil || len(paths) != 5+len(rows) {
		t.Fatalf("got %v, %v", paths, err)
	}
	for name, n := range rows {
		if got := readCSV(t, filepath.Join(strings.TrimSuffix(r.Path, ".json")+"_csv", name)); len(got) != n {
			t.Errorf("%s: %d rows, want %d", name, len(got), n)
		}
	}
	predicted := 0
	for _, row := range readCSV(t, filepath.Join(strings.TrimSuffix(r.Path, ".json")+"_csv", "conditions.csv")) {
		if row["predicted_drop"] != "" {
			predicted++
		}
	}
	for _, c := range r.Conditions {
		if c.Predicted != nil {
			predicted--
		}
	}
	if predicted != 0 {
		t.Errorf("%d predictions more than the result has", predicted)
	}
	x := &exported{r: r}
	entries, names := x.partEntries()
	for _, e := range entries {
		n := 1
		for _, d := range e.Shape {
			n *= d
		}
		if data := e.Data.([]float64); n != len(data) || n == 0 {
			t.Errorf("%s: %d values for shape %v", e.Name, len(data), e.Shape)
		}
	}
	if len(entries) == 0 || len(names.Bands)+len(names.Depths)+len(names.Keep)+len(names.Texts) == 0 {
		t.Errorf("%d arrays, %+v", len(entries), names)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// TestExportNPZ: NumPy itself reads the archive and finds the numbers of the result.
func TestExportNPZ(t *testing.T) {
	r := exportedResult(t)
	paths, err := Export(r.Path, ExportNPZ, "")
	if err != nil || len(paths) != 1 {
		t.Fatalf("got %v, %v", paths, err)
	}
	first := readFile(t, paths[0])
	if _, err := Export(r.Path, ExportNPZ, paths[0]); err != nil || string(readFile(t, paths[0])) != string(first) {
		t.Errorf("the same result makes other bytes: %v", err)
	}
	python := os.Getenv("HEADSCOPE_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skip("SKIPPED: no Python with NumPy; HEADSCOPE_PYTHON names one")
	}
	script := `
import json, sys, numpy as np
r = json.load(open(sys.argv[1])); z = np.load(sys.argv[2]); names = json.loads(z["names.json"])
for s in r["detection"]["scores"]:
    assert np.array_equal(z["scores/" + s["detector"]], np.array(s["data"])), s["detector"]
assert z["heads"].tolist() == r["heads"]
k = names["stages"]["knockout"]
for c in r["conditions"]:
    if c["stage"] == "knockout":
        i = k["conditions"].index(c["name"])
        m = c["metrics"]
        assert abs(z["knockout/sum_logprob"][i].mean() - m["sum_logprob"]["value"]) < 1e-12
        assert abs(z["knockout/margin"][i].mean() - m["margin"]["value"]) < 1e-12
        assert (z["knockout/hit"][i] == 1).sum() == c["n"]["hit"]
assert z["knockout/margin"].shape == (len(k["conditions"]), len(k["prompts"])) and z["knockout/margin"].dtype == np.float64
`
	if out, err := exec.Command(python, "-c", script, r.Path, paths[0]).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestExportRefused(t *testing.T) {
	r := exportedResult(t)
	if _, err := Export(r.Path, "xlsx", ""); err == nil {
		t.Error("an unknown format")
	}
	if err := os.Remove(TrialsOf(r.Path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(r.Path, ExportCSV, ""); err == nil || !strings.Contains(err.Error(), "its trials") {
		t.Errorf("without trials: got %v", err)
	}
}
