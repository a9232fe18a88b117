package decoder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resident is the process's resident memory in bytes, after Go has given back what it does not use.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

var errStop = errors.New("stop")

// walkPaths are one Ask on every path: plain, trunk, probe, cache, decoding; an observed pass; and the ways in which one ends early.
func walkPaths(t *testing.T, m *Model, ends bool) func() {
	p := []*Prompt{{IDs: tokens(400, 60), Question: 50, Answer: tokens(401, 2), Spans: [][2]int32{{3, 9}}}}
	conds := []Condition{
		{Probe: true}, {Edits: edits(t, "zero:L1H1")}, {Edits: edits(t, "zero:L0H1@answer")},
	}
	o := AskOptions{Batch: 1, MaxNew: 3}
	if m.be.Kind == KindGo {
		o.DecodeBatch = 2 // places that stay empty are computed too
	}
	look := []LookAt{{Row: 59, Contrast: &Contrast{Token: 5, Against: MeanLogit}}}
	if !ends {
		return func() {
			if _, err := m.Observe(context.Background(), p[0], look, p[0].Spans); err != nil {
				t.Fatal(err)
			}
			if err := m.Ask(context.Background(), p, conds, o, func(int, int, *Reply) error { return nil }); err != nil {
				t.Fatal(err)
			}
			scoreText(t, m, []TextWindow{{p[0].IDs, 50}}, conds[1].Edits)
		}
	}
	n := 0
	return func() {
		n++
		if n%5 == 0 {
			if err := m.Ask(context.Background(), p, conds, o, func(int, int, *Reply) error { return errStop }); !errors.Is(err, errStop) {
				t.Fatalf("got %v, want the emitter's error", err)
			}
			return
		}
		// The context ends after a few of its checks, at another point each time.
		ctx := &countdown{Context: context.Background(), left: n % 37}
		if n%7 == 0 {
			ctx.left = n % 4
			if _, err := m.Observe(ctx, p[0], look, p[0].Spans); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want %v", err, context.Canceled)
			}
			return
		}
		if err := m.Ask(ctx, p, conds, o, func(int, int, *Reply) error { return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}
}

// countdown is a context that is cancelled after so many looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestOwnership: walks leave nothing behind, whether they end well, by an error, or by a cancelled context.
func TestOwnership(t *testing.T) {
	// One sequence's keys and values, 32 KiB or more, left behind by each walk is more than allowed; device buffers are counted exactly.
	const warm, perWalk, most = 20, 20 << 10, 4 << 20
	whole, early := 70, 74 // about twice each point at which the context ends
	if slow() {
		whole, early = 200, 111
	}
	onBackends(t, func(t *testing.T, be *Backend) {
		name := "float32" // whose programs other tests have compiled
		if be.Kind == KindGo {
			name = "small"
		}
		m := model(t, be, name)
		for _, c := range []struct {
			name  string
			m     *Model
			ends  bool
			walks int
		}{
			{"whole walks", m, false, whole}, {"early ends", m, true, early},
			{"early ends, streamed", sibling(t, m, ckpt(t, name), Options{Memory: 1}), true, early},
		} {
			if be.Kind == KindGo && c.m.Streamed() && !slow() {
				continue // XLA's buffers show there what streaming leaves behind
			}
			step := walkPaths(t, c.m, c.ends)
			for range warm {
				step()
			}
			settle(c.m)
			buffers := liveBuffers(be)
			if be.Kind != KindGo { // the collector would finalise what a walk forgot: count without it
				defer debug.SetGCPercent(debug.SetGCPercent(-1))
			}
			// Allocators keep pages back now and then; a leak grows in every stretch.
			for try := 1; ; try++ {
				rss := resident(t)
				for range c.walks {
					step()
				}
				settle(c.m)
				grown := resident(t) - rss
				t.Logf("%s: %d walks: resident memory grew by %d KiB", c.name, c.walks, grown>>10)
				if grown <= min(int64(c.walks)*perWalk, most) {
					break
				}
				if try == 3 {
					t.Errorf("%s: %d walks, three times: resident memory grew by %d bytes", c.name, c.walks, grown)
					break
				}
			}
			more := liveBuffers(be) - buffers
			if more > 0 {
				t.Errorf("%s: %d walks left %d device buffers", c.name, c.walks, more)
			}
		}
	})
}

// settle waits for an upload under way and drops it, so that it does not count as a leak.
func settle(m *Model) {
	if m.Streamed() {
		m.weights.close()
	}
}

// TestCancel: a cancelled context stops a walk before the next layer, and the model works on.
func TestCancel(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		p := []*Prompt{{IDs: tokens(402, 60), Question: 50, Answer: tokens(403, 2)}}
		conds := []Condition{{}, {Edits: edits(t, "zero:L1H2")}, {Edits: edits(t, "zero:L0H3@answer")}}
		o := AskOptions{Batch: 1, MaxNew: 3}
		want := ask(t, m, p, conds, o)[0]
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		before := m.Work()
		start := time.Now()
		err := m.Ask(ctx, p, conds, o, func(int, int, *Reply) error { t.Error("a reply after the end"); return nil })
		if !errors.Is(err, context.Canceled) || m.Work() != before {
			t.Errorf("got %v and %+v, want %v and %+v", err, m.Work(), context.Canceled, before)
		}
		if _, err := m.Trace(ctx, p[0], nil, TraceOptions{Hidden: -1}); !errors.Is(err, context.Canceled) {
			t.Errorf("Trace: got %v, want %v", err, context.Canceled)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("stopped after %v", d)
		}
		for k, r := range ask(t, m, p, conds, o)[0] {
			sameReply(t, fmt.Sprintf("after the cancellation, condition %d", k), r, want[k])
		}
	})
}

// TestStreaming: layers uploaded anew for each walk give the bits of resident ones.
func TestStreaming(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		for _, name := range []string{"float32", "bfloat16"} {
			m := model(t, be, name)
			s := sibling(t, m, ckpt(t, name), Options{Memory: 1})
			if m.Streamed() || !s.Streamed() {
				t.Fatalf("streamed: got %t and %t", m.Streamed(), s.Streamed())
			}
			batch := []sequence{newSequence(1, 50), newSequence(2, 97), newSequence(3, 33), newSequence(4, 128)}
			want := prefill(t, m, 128, probeStats, batch)
			for range 2 {
				for i, got := range prefill(t, s, 128, probeStats, batch) {
					sameBits(t, fmt.Sprintf("%s: sequence %d", name, i), got, want[i])
				}
			}
			if name != "float32" {
				continue
			}
			p := []*Prompt{{IDs: tokens(402, 60), Question: 50, Answer: tokens(403, 2)}}
			conds := []Condition{{}, {Edits: edits(t, "zero:L1H2")}, {Edits: edits(t, "zero:L0H3@answer")}}
			o := AskOptions{Batch: 1, MaxNew: 3}
			whole := ask(t, m, p, conds, o)[0]
			for k, r := range ask(t, s, p, conds, o)[0] {
				sameReply(t, fmt.Sprintf("condition %d", k), r, whole[k])
			}
		}
	})
}

// TestCacheBytes: how much is in memory together changes no bit.
func TestCacheBytes(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		var prompts []*Prompt
		for i := range 5 {
			prompts = append(prompts, &Prompt{IDs: tokens(uint64(410+i), 40+15*i), Question: 30, Answer: tokens(403, 2)})
		}
		conds := []Condition{{}, {Edits: edits(t, "zero:L1H2")}, {Edits: edits(t, "zero:L0H3@answer")}}
		want := ask(t, m, prompts, conds, AskOptions{Batch: 1})
		for i, rs := range ask(t, m, prompts, conds, AskOptions{Batch: 1, CacheBytes: 1}) {
			for k, r := range rs {
				sameReply(t, fmt.Sprintf("prompt %d, condition %d", i, k), r, want[i][k])
			}
		}
	})
}
