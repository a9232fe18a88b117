package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
)

// rows writes lines of a name and a text; an empty name goes on with the one above.
type rows struct{ w *tabwriter.Writer }

func (r rows) row(name, format string, args ...any) {
	fmt.Fprintf(r.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

func printInspection(out io.Writer, in *loader.Inspection) error {
	r := rows{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	r.row("model", "%s", in.Ref)
	if in.Revision != "" {
		r.row("revision", "%s", in.Revision)
	}
	r.spec(&in.Spec)
	r.attention(&in.Spec)
	for i := range in.Spec.Tables {
		r.table(&in.Spec, i)
	}
	r.files(in)
	if len(in.Refused) == 0 {
		r.row("refused", "nothing")
	}
	for i, why := range in.Refused {
		r.row([]string{"refused", ""}[min(i, 1)], "%s", oneLine(why))
	}
	return r.w.Flush()
}

func (r rows) spec(s *loader.SpecInspection) {
	r.row("family", "%s (%s)", s.Family, s.Architecture)
	r.row("layers", "%d", s.Layers)
	r.row("heads", "%d query, %d key/value, head_dim %d", s.Heads, s.KVHeads, s.HeadDim)
	r.row("groups", "%s", groups(s))
	mlp := s.Activation
	if s.Gated {
		mlp += ", gated"
	}
	r.row("width", "%d, mlp %d (%s)", s.Hidden, s.Intermediate, mlp)
	norms := fmt.Sprintf("%s, eps %g, %s", s.Norm, s.NormEps, strings.Join(s.Norms, ", "))
	if s.QKNorm != "" {
		norms += "; q and k " + map[string]string{"shared": "head by head, one weight for all", "per_head": "head by head, a weight each", "full": "over all heads together"}[s.QKNorm]
	}
	r.row("norms", "%s", norms)
	if s.Parallel != "" {
		r.row("branches", "attention and mlp side by side (%s)", s.Parallel)
	}
	if len(s.Biases) > 0 {
		r.row("biases", "%s", strings.Join(s.Biases, ", "))
	}
	r.row("vocabulary", "%d, output matrix %s", s.Vocab, map[bool]string{true: "tied to the embedding", false: "its own"}[s.Tied])
	r.row("positions", "%d", s.MaxPositions)
	r.row("end tokens", "%v", s.EOS)
	scores := fmt.Sprintf("q·k times %.6g", s.ScoreScale)
	for _, x := range []struct {
		value  float64
		format string
	}{
		{s.ScoreCap, "; soft cap %g"}, {s.QKVClip, "; q, k and v clipped to ±%g"},
	} {
		if x.value != 0 {
			scores += fmt.Sprintf(x.format, x.value)
		}
	}
	r.row("scores", "%s", scores)
	var factors []string
	for _, x := range []struct {
		value  float64
		format string
	}{
		{s.EmbedScale, "embedding times %.6g"}, {s.ResidualScale, "branches times %g"}, {s.LogitScale, "logits times %g"}, {s.LogitDivide, "logits over %g"},
		{s.LogitCap, "logits soft cap %g"},
	} {
		if x.value != 0 {
			factors = append(factors, fmt.Sprintf(x.format, x.value))
		}
	}
	if len(factors) > 0 {
		r.row("factors", "%s", strings.Join(factors, ", "))
	}
}

// groups says which query heads read which key/value head.
func groups(s *loader.SpecInspection) string {
	if s.Group == 1 {
		return "each query head has a key/value head of its own"
	}
	last := s.KVHeads - 1
	text := fmt.Sprintf("%d query heads share a key/value head: 0-%d read 0", s.Group, s.Group-1)
	if last == 0 {
		return text
	}
	if last > 1 {
		text += ", ..."
	}
	return text + fmt.Sprintf(", %d-%d read %d", last*s.Group, s.Heads-1, last)
}

// attention prints the layers of each kind, neighbours joined.
func (r rows) attention(s *loader.SpecInspection) {
	layersOf := map[string][]int{}
	var kinds []string
	for l, a := range s.Attention {
		kind := "all keys before"
		if a.Window > 0 {
			kind = fmt.Sprintf("window of %d keys, the query's own included", a.Window)
		}
		switch {
		case a.Table == nil:
			kind += ", no rotation"
		case len(s.Tables) > 1:
			kind += fmt.Sprintf(", rope %d", *a.Table)
		}
		if layersOf[kind] == nil {
			kinds = append(kinds, kind)
		}
		layersOf[kind] = append(layersOf[kind], l)
	}
	for i, kind := range kinds {
		r.row([]string{"attention", ""}[min(i, 1)], "layers %s: %s", runs(layersOf[kind]), kind)
	}
}

// runs prints ascending numbers with their runs joined: 0-4, 6.
func runs(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if parts = append(parts, fmt.Sprint(list[i])); j > i {
			parts[len(parts)-1] += fmt.Sprintf("-%d", list[j])
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// table prints a rotary table and the wavelength of each of its planes.
func (r rows) table(s *loader.SpecInspection, i int) {
	t, name := &s.Tables[i], "rope"
	if len(s.Tables) > 1 {
		name = fmt.Sprintf("rope %d", i)
	}
	r.row(name, "%s, theta %g, %d planes in %d of %d dims (%s), factor on cos and sin %.6g", t.Type, t.Theta, len(t.Wavelengths), t.RotaryDim, s.HeadDim,
		map[string]string{"half": "i with i+rotary/2", "interleaved": "2i with 2i+1"}[s.Pairs], t.Scale)
	var parameters []string
	for _, key := range slices.Sorted(maps.Keys(t.Parameters)) {
		parameters = append(parameters, fmt.Sprintf("%s %g", key, t.Parameters[key]))
	}
	if len(parameters) > 0 {
		r.row("", "%s", strings.Join(parameters, ", "))
	}
	if t.VariesBeyond > 0 && t.ShortWavelengths == nil {
		r.row("", "a table for each length of more than %d tokens; this one is of %d", t.VariesBeyond, s.MaxPositions)
	}
	if t.ShortWavelengths != nil {
		r.row("", "tokens a turn, by plane, in passes of up to %d tokens:", t.VariesBeyond)
		r.planes(t.ShortWavelengths)
		r.row("", "in longer ones:")
	}
	r.row("", "%d planes turn at least once in %d tokens; tokens a turn, by plane:", t.Turning, s.MaxPositions)
	r.planes(t.Wavelengths)
}

// planes prints a number for each plane, eight a line.
func (r rows) planes(wavelengths []float64) {
	const perLine = 8
	for from := 0; from < len(wavelengths); from += perLine {
		to := min(from+perLine, len(wavelengths))
		var line strings.Builder
		fmt.Fprintf(&line, "%3d-%-3d", from, to-1)
		for _, w := range wavelengths[from:to] {
			fmt.Fprintf(&line, " %10.5g", w)
		}
		r.row("", "%s", line.String())
	}
}

func (r rows) files(in *loader.Inspection) {
	dtype := in.DType
	if dtype == "" {
		dtype = "dtype not known"
	}
	if w := in.Weights; w != nil {
		r.row("weights", "%d parameters, %s, %s in %d files", in.Parameters, dtype, harness.FormatBytes(w.Bytes), w.Files)
	} else {
		r.row("weights", "not in this folder; %d parameters, %s, would be %s", in.Parameters, dtype, harness.FormatBytes(in.Memory.Weights))
	}
	m := in.Memory
	r.row("memory", "at %d tokens: keys and values %s a sequence; weights %s, or %s where layers are streamed (--memory)", m.Length,
		harness.FormatBytes(m.Cache), harness.FormatBytes(m.Weights), harness.FormatBytes(m.Streamed))
	if dtype == "float16" {
		r.row("", "float16 is not computed: run it with --dtype float32 or bfloat16")
	}
	if t := in.Tokenizer; t != nil {
		r.row("tokenizer", "%d tokens, %d looked for in the text; adds special tokens: %t; chat template: %t", t.Vocab, t.Added, t.AddsSpecial, t.ChatTemplate)
	} else {
		r.row("tokenizer", "none")
	}
	r.row("config", "sha256 %s", in.ConfigSHA256)
	if w := in.Weights; w != nil && w.IndexSHA256 != "" {
		r.row("weights index", "sha256 %s", w.IndexSHA256)
	}
}
