package tokenizer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// english returns n bytes or a little more of English-like text: the words of a few sentences in a seeded order, with
// punctuation, digits and line breaks.
func english(n int) string {
	words := strings.Fields(`The accountant found the missing sum in a margin, written in pencil beside a drawing of a pear.
		Nobody knew who watered the lemon tree behind the station; yet it never went dry. Fishermen said that the tide was late
		that year, although the tables showed no change. "Isn't it strange?" asked the engineer's daughter, counting 1984 lamps.
		Copper wire was stretched from roof to roof, and by evening the whole street could talk about uncharacteristically
		cautious neighbours, phosphorescent jellyfish, misunderstandings, and the 37 bridges of Saint-Petersburg.`)
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		if rng.IntN(40) == 0 {
			b.WriteString("\n\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func BenchmarkEncode(b *testing.B) {
	text := english(700_000)
	run := func(name string, tok *Tokenizer) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				encode(b, tok, text, Options{})
			}
		})
	}
	for _, name := range []string{"smollm", "llama3", "qwen2", "llama2", "gemma2"} {
		run("tiny_"+name, tiny(b, name))
	}
	run("SmolLM2", smolLM2(b))
}

func BenchmarkLoad(b *testing.B) {
	run := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Skip(err)
		}
		b.Run(filepath.Base(path), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, path := range append([]string{"testdata/tiny/tiny_llama3.tokenizer.json"}, strings.Fields(os.Getenv("HEADSCOPE_TOKENIZER_FILES"))...) {
		run(path)
	}
}
