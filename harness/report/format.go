package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// cell is a text of a table with what its title says.
type cell struct{ Text, Title string }

func textCell(s string) cell { return cell{Text: s} }

// number shows x with a fixed number of decimals and a true minus; what is not a number is "-" with the reason as title.
func number(x float64, digits int, reason string) cell {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		if reason == "" {
			reason = "undefined"
		}
		return cell{"-", reason}
	}
	return cell{Text: decimals(x, digits)}
}

// decimals never shows a negative zero.
func decimals(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.HasPrefix(s, "-") {
		if strings.Trim(s, "-0.") == "" {
			return s[1:]
		}
		return "\u2212" + s[1:]
	}
	return s
}

func signed(x float64, digits int) string {
	s := decimals(x, digits)
	if x > 0 && strings.Trim(s, "0.") != "" {
		return "+" + s
	}
	return s
}

func value(m harness.Metric, digits int) cell {
	c := number(float64(m.Value), digits, m.Reason)
	if c.Title == "" {
		c.Title = about(m)
	}
	return c
}

func change(m harness.Metric, digits int) cell {
	c := value(m, digits)
	if defined(m) {
		c.Text = signed(float64(m.Value), digits)
	}
	return c
}

// about says how a metric was computed.
func about(m harness.Metric) string { return fmt.Sprintf("n = %d; interval: %s", m.Of, m.Method) }

func interval(m harness.Metric, digits int) string {
	if math.IsNaN(float64(m.Low)) || math.IsNaN(float64(m.High)) {
		return ""
	}
	return "[" + decimals(float64(m.Low), digits) + ",\u00a0" + decimals(float64(m.High), digits) + "]"
}

func defined(m harness.Metric) bool {
	v := float64(m.Value)
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// probability shows a p value with three digits.
func probability(p float64) string {
	if math.IsNaN(p) {
		return "-"
	}
	return strconv.FormatFloat(p, 'g', 3, 64)
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// count is "1 head", "2 heads".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// verb agrees with a count: "1 head is", "2 heads are".
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// some names the first heads of a list.
func some(hs []decoder.Head, most int) string {
	names := make([]string, 0, most)
	for _, h := range hs[:min(most, len(hs))] {
		names = append(names, h.String())
	}
	if len(hs) > most {
		return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(hs)-most)
	}
	return strings.Join(names, ", ")
}

// scoreAt is NaN for a head that the scores do not have.
func scoreAt(s heads.Scores, h decoder.Head) float64 {
	if h.Layer < 0 || h.Layer >= s.Layers || h.Index < 0 || h.Index >= s.Heads {
		return math.NaN()
	}
	return s.At(h)
}

func lastPart(ref string) string {
	ref = strings.TrimRight(ref, "/\\")
	return ref[strings.LastIndexAny(ref, "/\\")+1:]
}

// shellWord quotes a word of a command line where a shell would read it otherwise.
func shellWord(s string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("@%+=:,./_-", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var metricNames = map[string]string{
	"margin":      "log-probability of the code minus that of the decoy",
	"sum_logprob": "log-probability of the code",
}

// metricName says a metric in words.
func metricName(name string) string {
	if s, ok := metricNames[name]; ok {
		return s
	}
	return name
}

// scopeName says a scope in words.
func scopeName(s decoder.Scope) string {
	switch s {
	case decoder.ScopeAll:
		return "on all rows"
	case decoder.ScopeHaystack:
		return "on the haystack's rows"
	case decoder.ScopeQuestion:
		return "on the rows from the question on"
	case decoder.ScopeAnswer:
		return "on the rows that write the answer"
	case decoder.ScopeLast:
		return "on the prompt's last row"
	case "":
		return ""
	}
	return "on rows " + string(s)
}

// primaryChange is a condition's change of the metric that the plan declares.
func primaryChange(r *harness.Result, c *harness.ConditionResult) *harness.Metric {
	if r.Plan.Primary.Metric == "margin" {
		return c.Metrics.MarginChange
	}
	return c.Metrics.Change
}

// primaryValue is that metric itself.
func primaryValue(r *harness.Result, m *harness.Metrics) harness.Metric {
	if r.Plan.Primary.Metric == "margin" {
		return m.Margin
	}
	return m.SumLogProb
}
