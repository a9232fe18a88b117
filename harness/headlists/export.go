package headlists

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

// exported are the formats that a list is exported in, with the ending of the file.
var exported = map[heads.Format]string{heads.FormatDuo: "_duo.tsv", heads.FormatQRHead: "_qrhead.txt", heads.FormatWu: "_wu.json", heads.FormatLabels: "_labels.txt"}

// Export writes the list of a file in another tool's format and returns where: a DuoAttention mask, 1 for every key/value head that a
// listed head reads; QRHead's list, best first; Wu et al.'s scores, one trial a head where the file keeps no trials; TransformerLens
// labels. detector chooses one of the file's detectors, "" its first; out is a file, "" one beside the source.
func Export(path string, format heads.Format, detector, out string) (string, error) {
	ending, ok := exported[format]
	if !ok {
		return "", fmt.Errorf("format %q is not exported", format)
	}
	d, err := heads.ReadDocument(path)
	if err != nil {
		return "", err
	}
	if detector != "" {
		x, ok := d.Detector(detector)
		if !ok {
			var names []string
			for _, y := range d.Detectors {
				names = append(names, y.Detector)
			}
			return "", &harness.UsageError{Err: fmt.Errorf("%s: got no detector %q", path, detector), Advice: "it has " + strings.Join(names, ", ")}
		}
		d.Detectors = []heads.Detected{x}
	}
	if format == heads.FormatQRHead {
		d.Detectors[0].Scores = nil // QRHead's configs take names alone
	}
	if d.KV && format != heads.FormatDuo {
		return "", &harness.UsageError{Err: fmt.Errorf("%s: got key/value heads, want query heads", path), Advice: "give a list of query heads, or export it with --duo"}
	}
	d.Format = format
	b, err := heads.Encode(d)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if out == "" {
		out = strings.TrimSuffix(path, filepath.Ext(path)) + ending
	}
	if same(path, out) {
		return "", &harness.UsageError{Err: fmt.Errorf("%s: it would overwrite what it is made from", out), Advice: "name another file with --out"}
	}
	return out, harness.WriteFile(out, b)
}

func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
