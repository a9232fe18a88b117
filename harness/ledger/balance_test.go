package ledger

import (
	"testing"

	"github.com/headscope/headscope/heads"
)

func TestClip(t *testing.T) {
	if clip(heads.Span{3, 9}, heads.Span{5, 7}) != (heads.Span{5, 7}) || clip(heads.Span{1, 2}, heads.Span{5, 7}).Len() != 0 {
		t.Error("clip")
	}
}
