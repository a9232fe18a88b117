package main

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/headscope/headscope/harness"
)

// logEvery is how often a run without a terminal says how far it is.
const logEvery = 30 * time.Second

// progress shows a run's events: a bar on a terminal, else one log line every 30 s, nothing with --quiet.
type progress struct {
	a       *app
	bar     *progressbar.ProgressBar
	stage   string
	last    time.Time
	resumed map[string]int // trials by stage
}

func (a *app) progress() *progress {
	return &progress{a: a, last: time.Now(), resumed: map[string]int{}}
}

func (p *progress) event(e harness.Event) {
	if p.a.quiet {
		return
	}
	if e.Resumed > p.resumed[e.Stage] {
		p.resumed[e.Stage] = e.Resumed
	}
	if _, tty := terminal(p.a.err); !tty {
		if time.Since(p.last) >= logEvery {
			p.last = time.Now()
			fmt.Fprintf(p.a.err, "%s: %d of %d trials\n", e.Stage, e.Done, e.Total)
		}
		return
	}
	if p.stage != e.Stage {
		p.clear()
		p.stage = e.Stage
		p.bar = progressbar.NewOptions(e.Total, progressbar.OptionSetWriter(p.a.err), progressbar.OptionSetDescription(e.Stage),
			progressbar.OptionShowCount(), progressbar.OptionSetItsString("trials"), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true))
	}
	if err := p.bar.Set(e.Done); err != nil {
		p.a.log.Debug("progress bar", "error", err)
	}
}

// close takes the bar away and says what did not have to be computed.
func (p *progress) close() {
	p.clear()
	for stage, n := range p.resumed {
		p.a.note("%s: %d trials were there already", stage, n)
	}
}

func (p *progress) clear() {
	if p.bar == nil {
		return
	}
	if err := p.bar.Clear(); err != nil {
		p.a.log.Debug("progress bar", "error", err)
	}
	p.bar = nil
}
