package harness

import (
	"testing"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

func TestJudge(t *testing.T) {
	c, _ := tinyModel(t)
	tok := c.Tokenizer
	ids := func(text string) []int32 {
		enc, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return enc.IDs
	}
	const end = 2
	p := &Prompt{Spec: &PromptSpec{Answer: "K1Q", Decoys: []DecoySpec{{Answer: "Z0X"}}}}
	loop := ids("ab")
	for len(loop) < 16 {
		loop = append(loop, loop...)
	}
	for _, test := range []struct {
		name   string
		greedy []int32
		want   Outcome
	}{
		{"hit", ids(" it is K1Q."), Hit},
		{"hit before the end", append(ids(" K1Q"), end), Hit},
		{"answer after the end token", append(append(ids(" no"), end), ids(" K1Q")...), Other},
		{"decoy", ids(" Z0X"), Decoy},
		{"both", ids(" not Z0X but K1Q"), Hit},
		{"other case", ids(" k1q and more words of it"), Other},
		{"empty", []int32{end}, Broken},
		{"white space", append(ids("  \n"), end), Broken},
		{"circles", loop[:16], Broken},
		{"circles that end", append(append([]int32{}, loop[:15]...), end), Other},
	} {
		if got, text := judge(p, &decoder.Reply{Greedy: test.greedy}, []int32{end}, tok); got != test.want {
			t.Errorf("%s: got %s for %q, want %s", test.name, got, text, test.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for s, want := range map[string]int64{"7": 7, "6GB": 6e9, "512MiB": 512 << 20, "4G": 4 << 30, " 1.5 kib ": 1536, "2kB": 2000} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "GB", "-1", "0", "1e30", "6 apples", "NaN"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("%q: got %d, want an error", s, got)
		}
	}
	if got := FormatBytes(3 << 29); got != "1.5 GiB" {
		t.Errorf("got %s", got)
	}
}
