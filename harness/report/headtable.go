package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

// headTable lists the detected heads, or the given ones.
type headTable struct {
	Given  bool
	Scores []cell // names, with what they mean
	Looks  bool   // where the hits fall is known
	Rows   []headRow
	More   []headRow // beyond the first listedHeads
	Near   string    // heads one hit short of the threshold
	Ties   string
}

type headRow struct {
	Rank  int
	Head  string
	Class cell
	Score []cell
	Hits  cell // where in the needle they fall, and repeated words outside of it
	Label cell
}

const listedHeads = 48

// shownScores are the columns, in order, of those that the result has.
var shownScores = []string{"argmax_last", "mass_last", "argmax_code", "copy_tf", "induction", "duplicate", "prev_token", "write_norm"}

var classAbout = map[string]string{
	"sure":   "the whole interval reaches the threshold",
	"likely": "the score reaches the threshold, its interval does not: it may be there by chance",
	"near":   "one hit short of the threshold",
}

var labelAbout = map[heads.Label]string{
	heads.LabelCode:         "most hits fall on the code",
	heads.LabelBeforeCode:   "most hits fall on the token before the code",
	heads.LabelRepeatedWord: "most hits fall on a token equal to the prompt's last one: it follows a duplicate",
	heads.LabelNeedle:       "most hits fall on other tokens of the needle",
	heads.LabelOther:        "no place holds more than half of the hits",
}

func newHeadTable(r *harness.Result) *headTable {
	if len(r.Heads) == 0 {
		return nil
	}
	t := &headTable{Given: r.Detection == nil}
	byName := map[string]heads.Scores{}
	if r.Scores != nil {
		byName[r.Scores.Detector] = *r.Scores
	}
	hits := map[string]heads.Hits{}
	cuts := map[string]harness.Cut{}
	if d := r.Detection; d != nil {
		for _, s := range d.Scores {
			byName[s.Detector] = s
		}
		for _, h := range d.Hits {
			hits[h.Head.String()] = h
		}
		for _, c := range d.Cuts {
			cuts[c.Head.String()] = c
		}
		t.Near, t.Ties = nearText(r), some(d.Ties, 12)
	}
	t.Looks = len(hits) > 0
	var names []string
	for _, name := range shownScores {
		if _, ok := byName[name]; ok {
			names = append(names, name)
			t.Scores = append(t.Scores, cell{name, detectorAbout[name]})
		}
	}
	for i, h := range r.Heads {
		row := headRow{Rank: i + 1, Head: h.String(), Class: cell{Text: ""}}
		cut, known := cuts[h.String()]
		if known {
			row.Class = cell{cut.Class, classAbout[cut.Class]}
		}
		for _, name := range names {
			row.Score = append(row.Score, scoreCell(name, scoreAt(byName[name], h), cut, known))
		}
		if t.Looks {
			row.Label, row.Hits = cell{"-", "not recorded"}, cell{"-", "not recorded"}
			if at, ok := hits[h.String()]; ok {
				row.Label, row.Hits = cell{string(at.Label), labelAbout[at.Label]}, textCell(hitText(at))
			}
		}
		if len(t.Rows) < listedHeads {
			t.Rows = append(t.Rows, row)
		} else {
			t.More = append(t.More, row)
		}
	}
	return t
}

// scoreCell shows a score; that of the detector itself with its interval.
func scoreCell(name string, v float64, cut harness.Cut, known bool) cell {
	digits := 2
	if name == "write_norm" && math.Abs(v) >= 10 {
		digits = 0
	}
	c := number(v, digits, "no score")
	if name == "argmax_last" && known && c.Text != "-" {
		c.Text += fmt.Sprintf(" [%s, %s]", decimals(float64(cut.Low), 2), decimals(float64(cut.High), 2))
		c.Title = "Wilson interval, 95 %"
	}
	return c
}

// hitText says where the hits of a head fall. One hit may count twice: the token before the code may be a repeated word.
func hitText(h heads.Hits) string {
	var parts []string
	for _, x := range []struct {
		n    int
		text string
	}{{h.Code, "on the code"}, {h.BeforeCode, "before it"}, {h.RepeatedWord, "on a repeat"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.text))
		}
	}
	text := fmt.Sprint(h.Total)
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if h.Elsewhere > 0 {
		text += fmt.Sprintf("; %d outside", h.Elsewhere)
	}
	return text
}

// nearText names the heads one hit short of the threshold, unless there are so many that their names say nothing.
func nearText(r *harness.Result) string {
	near := r.Detection.Borderline.Minus(r.Detection.Heads.Set())
	if len(near) == 0 {
		return ""
	}
	return count(len(near), "head") + ": " + some(near, 12)
}
