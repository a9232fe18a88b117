package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

const (
	maxNew    = 20 // longest answer, as the peer
	threshold = 0.1
	drawSeed  = 1
)

// study is the work of sections c to e: what the peer's profile computes, asked of the engine.
type study struct {
	ctx     context.Context
	m       *decoder.Model
	ckpt    *loader.Checkpoint
	prompts []*harness.Prompt

	asked     []*decoder.Prompt
	retrieval heads.Set
	scores    heads.Scores // argmax_last
	copying   int          // heads with copy_tf at or above the threshold
	random    []heads.Set
	matched   []heads.Set
	recall    []float64 // unmodified, without the retrieval heads, without each random set
	verified  int       // answers read off the fed one
}

func newStudy(ctx context.Context, m *decoder.Model, c *loader.Checkpoint, prompts []*harness.Prompt) *study {
	s := &study{ctx: ctx, m: m, ckpt: c, prompts: prompts}
	for _, p := range prompts {
		s.asked = append(s.asked, &decoder.Prompt{
			IDs: p.IDs, Question: p.Question, Answer: p.Answer, Spans: [][2]int32{{int32(p.Needle[0]), int32(p.Needle[1])}},
		})
	}
	return s
}

// ask puts the prompts under conds and returns the recall of each condition.
func (s *study) ask(conds []decoder.Condition, each func(prompt int, r *decoder.Reply)) ([]float64, error) {
	recall := make([]float64, len(conds))
	o := decoder.AskOptions{MaxNew: maxNew, Verify: true, EOS: s.ckpt.Spec.EOS}
	err := s.m.Ask(s.ctx, s.asked, conds, o, func(p, c int, r *decoder.Reply) error {
		if strings.Contains(s.ckpt.Tokenizer.Decode(r.Greedy, false), s.prompts[p].Spec.Answer) {
			recall[c] += 1 / float64(len(s.prompts))
		}
		if r.Verified {
			s.verified++
		}
		if each != nil {
			each(p, r)
		}
		return nil
	})
	return recall, err
}

// detect finds the retrieval heads; the pass that is probed also gives the unmodified model's answers.
func (s *study) detect() error {
	spec := &s.ckpt.Spec
	var list []heads.Observation
	recall, err := s.ask([]decoder.Condition{{Probe: true}}, func(i int, r *decoder.Reply) {
		p := s.prompts[i]
		o := heads.Observation{Prompt: i, Needle: p.Needle, Code: p.Code, Tokens: make([]int, len(p.IDs)), Rows: rowsOf(r.Attention)}
		for k, id := range p.IDs {
			o.Tokens[k] = int(id)
		}
		list = append(list, o)
	})
	if err != nil {
		return err
	}
	obs, err := heads.NewObservations(spec.Layers, spec.Heads, list)
	if err != nil {
		return err
	}
	copied, err := obs.CopyTF()
	if err != nil {
		return err
	}
	s.scores = obs.ArgmaxLast()
	s.retrieval, s.copying, s.recall = s.scores.AtLeast(threshold), len(copied.AtLeast(threshold)), recall
	if len(s.retrieval) == 0 {
		return errors.New("no head reaches the threshold: nothing to switch off")
	}
	return nil
}

// rowsOf turns a probe, [layers, heads, rows], into rows of all heads.
func rowsOf(a *decoder.Attention) []heads.Row {
	out := make([]heads.Row, a.Rows)
	for i := range a.Layers * a.Heads {
		for j := range out {
			k := i*a.Rows + j
			out[j].Argmax = append(out[j].Argmax, a.Argmax[k])
			out[j].Gap = append(out[j].Gap, a.Gap[k])
			out[j].SpanMass = append(out[j].SpanMass, a.Mass[k*a.Spans])
		}
	}
	return out
}

// allRows is the peer's work: detect, then answers without the retrieval heads and without each random set.
func (s *study) allRows() error {
	s.verified = 0
	if err := s.detect(); err != nil {
		return err
	}
	recall, err := s.ask(zeroed(append([]heads.Set{s.retrieval}, s.random...), decoder.ScopeAll), nil)
	s.recall = append(s.recall, recall...)
	return err
}

// question asks the unmodified model and the retrieval heads and matched sets switched off at the question's rows.
func (s *study) question() error {
	conds := append([]decoder.Condition{{}}, zeroed(append([]heads.Set{s.retrieval}, s.matched...), decoder.ScopeQuestion)...)
	_, err := s.ask(conds, nil)
	return err
}

func zeroed(sets []heads.Set, scope decoder.Scope) []decoder.Condition {
	out := make([]decoder.Condition, len(sets))
	for i, set := range sets {
		out[i].Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: set, Scope: scope}}
	}
	return out
}

// chooseSets draws the random sets, the peer's own where there is one, and the matched sets of the question's rows. detect has run.
func (s *study) chooseSets(p *peer, random, matched int) error {
	rest := patch.LayerPool(s.scores, threshold)
	var err error
	if p != nil {
		if s.random, err = p.draw(s.ctx, rest, len(s.retrieval), random); err != nil {
			return err
		}
	} else {
		rng := rand.New(rand.NewPCG(drawSeed, 0))
		for range random {
			var set []decoder.Head
			for _, i := range rng.Perm(len(rest))[:min(len(rest), len(s.retrieval))] {
				set = append(set, rest[i])
			}
			s.random = append(s.random, heads.NewSet(set...))
		}
	}
	if matched == 0 {
		return nil
	}
	s.matched, _, err = patch.MatchedSets(rest, s.retrieval, matched, rand.New(rand.NewPCG(drawSeed, 1)))
	if err != nil {
		return fmt.Errorf("matched sets: %w", err)
	}
	return nil
}
