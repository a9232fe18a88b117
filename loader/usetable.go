package loader

import (
	"fmt"

	"github.com/headscope/headscope/loader/rope"
)

// UseTable puts the frequencies of a file in the place of the checkpoint's rotary table, for passes of every length. The factor on cosine and
// sine stays that of passes of the longest sequence. ConfigSHA256 becomes that of config and frequencies together, so that nothing takes
// the checkpoint for the one as it was trained. Call it before anything is made of the Spec.
//
// A file of another number of planes, and a checkpoint with no table or with several, are errors that say what would fit.
func (c *Checkpoint) UseTable(f *rope.File) error {
	if n := len(c.Spec.Tables); n != 1 {
		return fmt.Errorf("table %s: the model has %d rotary tables, want 1 to put it in the place of", f.Name, n)
	}
	own, err := rope.New(c.Spec.Tables[0], c.Spec.HeadDim, c.Spec.MaxPositions)
	if err != nil {
		return err
	}
	if len(f.Planes) != own.Planes() {
		return fmt.Errorf("table %s: got %d planes, want %d: the model rotates %d dimensions", f.Name, len(f.Planes), own.Planes(), own.RotaryDim)
	}
	text, err := (&rope.File{Name: "exact", Planes: f.Planes, Layout: f.Layout}).Encode() // by whatever name
	if err != nil {
		return err
	}
	c.Spec.Tables = []rope.Config{{Type: "exact", Exact: f.Planes, RotaryDim: own.RotaryDim, AttentionFactor: own.Scale}}
	c.ConfigSHA256 = sha256Hex(append([]byte(c.ConfigSHA256+"\n"), text...))
	return nil
}
