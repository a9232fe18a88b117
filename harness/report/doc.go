// Package report turns a result into what a person reads: one self-contained HTML file, and figures as PNG or SVG.
//
// The page is made in two steps. Go code turns a [harness.Result] into plain values: sentences, table cells, and figures, which are lists
// of marks (rectangles, lines, dots, texts). One template then writes them all, so that every text of a model or a prompt goes through
// html/template's escaping, those inside the inline SVG too. The page has no script, loads nothing, follows the reader's light or dark
// scheme, and prints. Horizontal positions are percentages and vertical ones pixels, so that figures follow the width of the window
// while their texts keep their size.
//
// The summary in plain words is computed from the numbers alone. It says what was asked, what came out, what the controls say, and what
// would overturn it; a number that is undefined is shown as "-" with its reason as title. The same result gives the same bytes.
//
//	r, err := harness.ReadResult("results/model/study_3f9c1a7be204.json")
//	...
//	err = report.WriteFile("study.html", r)
//	err = report.Plot(w, r, report.Heads, report.SVG)
//
// It stands above harness, which it reads, and below cmd. It never touches a model.
package report
