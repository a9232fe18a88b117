package loader_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// TestUseTable: the frequencies of a file are those of every pass, and the checkpoint is no longer known as the one that it was.
func TestUseTable(t *testing.T) {
	open := func(name string) *loader.Checkpoint {
		c, err := loader.Open(filepath.Join("testdata", "parity", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := open("llama_yarn")
	own, err := rope.New(c.Spec.Tables[0], c.Spec.HeadDim, c.Spec.MaxPositions)
	if err != nil {
		t.Fatal(err)
	}
	f := &rope.File{Name: "mine", Planes: slices.Clone(own.InvFreq), Layout: rope.RotateHalf}
	f.Planes[0] = 0.75
	before := c.ConfigSHA256
	if err := c.UseTable(f); err != nil {
		t.Fatal(err)
	}
	for _, pass := range []int{1, 1 << 20} {
		got, err := rope.New(c.Spec.Tables[0], c.Spec.HeadDim, pass)
		if err != nil || !slices.Equal(got.InvFreq, f.Planes) || got.Scale != own.Scale || got.Scale == 1 || got.RotaryDim != own.RotaryDim {
			t.Errorf("pass of %d: got %+v, %v, want the file's planes and scale %g", pass, got, err, own.Scale)
		}
	}
	same, other := open("llama_yarn"), open("llama_yarn")
	f.Name = "renamed"
	if err := same.UseTable(f); err != nil || same.ConfigSHA256 != c.ConfigSHA256 || same.ConfigSHA256 == before {
		t.Errorf("the same table: got hash %s, %v, want %s, which is not %s", same.ConfigSHA256, err, c.ConfigSHA256, before)
	}
	f.Planes = slices.Clone(f.Planes)
	f.Planes[1] *= 1 + 1e-15
	if err := other.UseTable(f); err != nil || other.ConfigSHA256 == c.ConfigSHA256 {
		t.Errorf("another table has the hash of the first, %v", err)
	}
	f.Planes = f.Planes[1:]
	if err := open("llama_yarn").UseTable(f); err == nil || !strings.Contains(err.Error(), "table renamed: got 7 planes, want 8: the model rotates 16 dimensions") {
		t.Errorf("too few planes: got %v", err)
	}
	if err := open("gemma3_text").UseTable(f); err == nil || !strings.Contains(err.Error(), "2 rotary tables, want 1") {
		t.Errorf("two tables: got %v", err)
	}
}
