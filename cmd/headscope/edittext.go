package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/loader/decoder"
)

// siteText says where a site is.
func siteText(s decoder.Site) string {
	return map[decoder.Site]string{
		decoder.SiteProjections: "outputs of q_proj and k_proj, before any norm",
		decoder.SiteQuery:       "query, after bias, clipping and norm, before rotation",
		decoder.SiteTable:       "rotary table of the query, and of the key as this head alone sees it",
		decoder.SiteScores:      "attention scores, before the softmax",
		decoder.SiteKeys:        "which keys are visible",
		decoder.SiteOutput:      "head output, before the output projection",
	}[s]
}

// write prints conditions one below the other.
func (x *explained) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for i, c := range x.Conditions {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if n := len(c.Edits); n > 1 {
			fmt.Fprintf(w, "%s: %d edits together\n", c.Name, n)
		} else if c.Name != c.Edits[0].Edit {
			fmt.Fprintf(w, "%s: 1 edit\n", c.Name)
		}
		for _, e := range c.Edits {
			fmt.Fprintln(w, e.Edit)
			x.writeEdit(func(name, format string, args ...any) {
				fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
			}, &e)
		}
		fmt.Fprintln(w, "run")
		x.writeRun(func(name, format string, args ...any) {
			fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
		}, &c)
	}
	return w.Flush()
}

func (x *explained) writeEdit(row func(name, format string, args ...any), e *explainedEdit) {
	row("heads", "%d of the model's %d, in %s: %s", len(e.Heads), x.spec.Layers*x.spec.Heads, layersText(e.Layers), e.Heads)
	if len(e.Skipped) > 0 {
		row("skipped", "%s: their layers do not rotate", e.Skipped)
	}
	row("site", "%s", siteText(e.Site))
	if e.PromptRows != nil {
		row("rows", "%s (%d of the prompt's %d)", e.Rows, *e.PromptRows, x.Tokens)
	} else {
		row("rows", "%s", e.Rows)
	}
	for _, p := range e.Planes {
		list := make([]string, len(p.Planes))
		for i, n := range p.Planes {
			list[i] = fmt.Sprint(n)
			if len(p.Wavelengths) > 0 {
				list[i] += " (" + turnText(float64(p.Wavelengths[i]))
				if len(p.Becomes) > 0 {
					list[i] += " -> " + turnText(float64(p.Becomes[i]))
				}
				list[i] += ")"
			}
		}
		unit := " (tokens a turn)"
		if len(p.Wavelengths) == 0 {
			unit = " (do not rotate)"
		}
		row("planes", "%s%s: %s", layersText(p.Layers), unit, strings.Join(list, ", "))
	}
	if len(e.KV) > 0 {
		row("keys", "%s", groupsText(e.KV))
	}
	if len(e.Siblings) > 0 {
		row("siblings", "%s read the changed keys too", e.Siblings)
	}
	if e.Identity {
		row("note", "asks for nothing: the identity")
	}
	if e.Parsed.Op == decoder.OpKeepSpread {
		row("note", "the identity without an edit of the query's planes beside it")
	}
}

func (x *explained) writeRun(row func(name, format string, args ...any), c *explainedCondition) {
	r := &c.Run
	for _, p := range r.Programs {
		if len(p.Inputs) == 0 {
			row("program", "%s: the base program, other inputs", layersText(p.Layers))
		} else {
			row("program", "%s: variant %s", layersText(p.Layers), strings.Join(p.Inputs, "+"))
		}
	}
	own := fmt.Sprintf("layers %d-%d, %d of %d", r.FirstLayer, r.Of-1, r.Layers, r.Of)
	if r.Layers == 1 {
		own = fmt.Sprintf("layer %d, 1 of %d", r.FirstLayer, r.Of)
	}
	share := ""
	if r.Share != nil {
		share = fmt.Sprintf(": %.1f %% of an unmodified pass's rows times layers", 100**r.Share)
	}
	if r.Whole {
		row("computes", "whole sequences in %s%s", own, share)
	} else {
		row("computes", "rows from %s on, over the kept cache of the unmodified run, in %s%s", r.FromRow, own, share)
	}
	switch {
	case r.FirstLayer == 0:
	case r.Whole:
		row("shares", "the layers below with the unmodified run, where that is asked for too")
	default:
		row("shares", "these rows in the layers below with conditions from the same row")
	}
	if r.Donor {
		row("needs", "a run of the prompt's donor")
	}
	if r.Means {
		row("needs", "means over other prompts, which study and knockout have")
	}
}

// groupsText names key/value heads, or counts them where they are many.
func groupsText(list []decoder.KVGroup) string {
	var names []string
	whole := 0
	for _, g := range list {
		names = append(names, fmt.Sprintf("key/value head %d of layer %d, %d of its %d query heads", g.Index, g.Layer, g.Edited, g.Of))
		if g.Edited == g.Of {
			whole++
		}
	}
	if len(list) > 8 {
		return fmt.Sprintf("%d key/value heads, %d of them with all of their query heads", len(list), whole)
	}
	return strings.Join(names, "; ")
}

// layersText names ascending layers, runs of three or more as 3-7.
func layersText(layers []int) string {
	var list []string
	for i := 0; i < len(layers); {
		end := i
		for end+1 < len(layers) && layers[end+1] == layers[end]+1 {
			end++
		}
		if end < i+2 {
			end = i
			list = append(list, fmt.Sprint(layers[i]))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", layers[i], layers[end]))
		}
		i = end + 1
	}
	if len(layers) == 1 {
		return "layer " + list[0]
	}
	return "layers " + strings.Join(list, ",")
}

func turnText(w float64) string {
	if math.IsInf(w, 0) {
		return "none"
	}
	return fmt.Sprintf("%.4g", w)
}
