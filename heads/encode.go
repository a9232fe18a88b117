package heads

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Encode writes a document in its format, so that [Decode] and the format's own tool read it. What the format has no place for is left
// out; what it needs and the document lacks is an error.
func Encode(d *Document) ([]byte, error) {
	if len(d.Detectors) == 0 {
		return nil, fmt.Errorf("%s: no detector to write", d.Format)
	}
	first := d.Detectors[0]
	switch d.Format {
	case FormatLabels, FormatPairs, FormatQRHead:
		if first.Heads == nil && (d.Format != FormatQRHead || first.Scores == nil) {
			return nil, fmt.Errorf("%s: %s lists no heads", d.Format, first.Detector)
		}
	}
	switch d.Format {
	case FormatLabels:
		return []byte(first.Heads.String() + "\n"), nil
	case FormatPairs:
		return withNewline(json.Marshal(first.Heads))
	case FormatQRHead:
		return encodeQRHead(first)
	case FormatWu:
		return encodeWu(first)
	case FormatDuo:
		return encodeDuo(d)
	case FormatProfile:
		return encodeProfile(d)
	}
	return nil, fmt.Errorf("format %q is not written", d.Format)
}

func withNewline(b []byte, err error) ([]byte, error) { return append(b, '\n'), err }

// encodeQRHead writes [["L-H", score], ...], best first, where there are scores, else "L-H,L-H".
func encodeQRHead(x Detected) ([]byte, error) {
	list := x.Heads
	if x.Scores == nil {
		names := make([]string, len(list))
		for i, h := range list {
			names[i] = wuName(h)
		}
		if len(names) == 0 {
			names = []string{none}
		}
		return []byte(strings.Join(names, ",") + "\n"), nil
	}
	if list == nil {
		list = x.Scores.Ranking()
	}
	pairs := make([]scoredHead, len(list))
	for i, h := range list {
		pairs[i] = scoredHead{h, x.Scores.At(h)}
		if math.IsNaN(pairs[i].score) {
			return nil, fmt.Errorf("%s: head %s has no score", FormatQRHead, h)
		}
	}
	return withNewline(json.Marshal(pairs))
}

// MarshalJSON writes ["L-H", score].
func (s scoredHead) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{wuName(s.head), s.score})
}

// encodeWu writes {"L-H": [...]}, in order of heads, on one line: the trials, or the mean as the one trial.
func encodeWu(x Detected) ([]byte, error) {
	if x.Scores == nil {
		return nil, fmt.Errorf("%s: %s has no scores of all heads", FormatWu, x.Detector)
	}
	var b bytes.Buffer
	for i, mean := range x.Scores.Data {
		trials := []float64{mean}
		if x.Trials != nil {
			trials = x.Trials[i]
		}
		sep := ", "
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&b, "%s%q: [", sep, wuName(x.Scores.head(i)))
		for j, v := range trials {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("%s: head %s has no score", FormatWu, x.Scores.head(i))
			}
			if j > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte(']')
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// encodeDuo writes a gate for every key/value head: the document's scores where it is about key/value heads, else 1 where a listed
// query head reads the key/value head and 0 elsewhere.
func encodeDuo(d *Document) ([]byte, error) {
	x := d.Detectors[0]
	gates := x.Scores
	if !d.KV {
		if d.Shape.Group() == 0 || d.Shape.Layers == 0 {
			return nil, fmt.Errorf("%s: got %d layers, %d heads, %d key/value heads, want a model's", FormatDuo, d.Shape.Layers, d.Shape.Heads, d.Shape.KVHeads)
		}
		if x.Heads == nil {
			return nil, fmt.Errorf("%s: %s lists no heads", FormatDuo, x.Detector)
		}
		mask := NewScores("duo_gate", d.Shape.Layers, d.Shape.KVHeads)
		for _, h := range x.Heads.Set().KVHeads(d.Shape.Group()) {
			mask.Data[h.Layer*mask.Heads+h.Index] = 1
		}
		gates = &mask
	}
	var b bytes.Buffer
	for i, v := range gates.Data {
		sep := byte('\t')
		if (i+1)%gates.Heads == 0 {
			sep = '\n'
		}
		b.WriteString(strconv.FormatFloat(v, 'e', 18, 64)) // as numpy.savetxt does
		b.WriteByte(sep)
	}
	return b.Bytes(), nil
}

// encodeProfile writes what a published profile says of heads.
func encodeProfile(d *Document) ([]byte, error) {
	p := profileJSON{Model: d.Model, Layers: d.Shape.Layers, Heads: d.Shape.Heads, KVHeads: d.Shape.KVHeads}
	if d.Threshold > 0 {
		p.Profile = &struct {
			Threshold float64 `json:"threshold"`
		}{d.Threshold}
	}
	for _, x := range []struct {
		detector string
		list     *Ranking
		scores   *scoreTable
	}{{"argmax_last", &p.ArgmaxHeads, &p.ArgmaxScores}, {"copy_tf", &p.CopyHeads, &p.CopyScores}} {
		y, ok := d.Detector(x.detector)
		if !ok || y.Heads == nil || y.Scores == nil {
			return nil, fmt.Errorf("%s: %s is missing, or its heads or scores are", FormatProfile, x.detector)
		}
		*x.list = Ranking(y.Heads.Set())
		*x.scores = append(*x.scores, y.Scores.rows()...)
	}
	argmax, _ := d.Detector("argmax_last") // it is there
	p.N = argmax.Scores.N
	return withNewline(json.MarshalIndent(p, "", " "))
}
