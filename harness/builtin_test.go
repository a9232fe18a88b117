package harness

import (
	"bytes"
	"context"
	"testing"

	"github.com/headscope/headscope/harness/pretrain"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/builtin"
	"github.com/headscope/headscope/loader/decoder"
)

// TestOwnPrompts: the embedded sets are those that the task writes.
func TestOwnPrompts(t *testing.T) {
	task := pretrain.NewTask()
	test, detect := OwnPrompts(builtin.Needle)
	for name, split := range map[string]pretrain.CodeSplit{test: pretrain.Test, detect: pretrain.Detect} {
		var want bytes.Buffer
		f, err := ReadPrompts(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := task.WritePrompts(&want, split, f.Total, 124); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(f.Data, want.Bytes()) {
			t.Errorf("%s is not what the task writes: run make builtin", name)
		}
	}
	if test, detect := OwnPrompts("elsewhere"); test != "" || detect != "" {
		t.Errorf("another model: got %q and %q", test, detect)
	}
}

// TestBuiltinNeedle holds the embedded model to what its README promises: it recalls nearly every code, the heads that are detected on
// other prompts carry that, and as many other heads of their layers do not.
func TestBuiltinNeedle(t *testing.T) {
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(builtin.Needle)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := decoder.New(be, c, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := Options{
		Verb: "study", Stages: []string{StageDetect, StageKnockout}, Checkpoint: c, Model: m, Threshold: 0.1, MaxNew: 4, FullAnswers: true,
		Batch: 1, Out: t.TempDir(), Scopes: []decoder.Scope{decoder.ScopeAll, decoder.ScopeQuestion}, Pools: []string{PoolLayer}, Controls: 2,
	}
	if o.Prompts, err = ReadPrompts(OwnTest); err != nil {
		t.Fatal(err)
	}
	if o.DetectPrompts, err = ReadPrompts(OwnDetect); err != nil {
		t.Fatal(err)
	}
	o.Prompts, o.DetectPrompts = o.Prompts.Limit(6), o.DetectPrompts.Limit(5)
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(res.Heads); n == 0 || n > c.Spec.Heads {
		t.Errorf("got %d retrieval heads, want some, and as many idle ones", n)
	}
	controls := 0
	for _, r := range res.Conditions {
		recall := float64(r.N.Hit) / float64(r.N.Planned)
		switch {
		case r.Stage != StageKnockout:
		case r.ControlOf != "":
			controls++
			if recall < 0.9 {
				t.Errorf("%s: recall %.3f without %v, want 0.9 or more", r.Name, recall, r.Heads)
			}
		case len(r.Heads) > 0:
			if recall > 0.2 {
				t.Errorf("%s: recall %.3f without %v, want 0.2 or less", r.Name, recall, r.Heads)
			}
		case recall < 0.99:
			t.Errorf("%s: recall %.3f, want 0.99 or more", r.Name, recall)
		}
	}
	if controls != 2*2 {
		t.Errorf("got %d controls, want 2 of each scope", controls)
	}
}
