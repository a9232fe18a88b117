package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/gotokenizers/models/bpemodel"
	"github.com/nlpodyssey/gotokenizers/vocabulary"
)

// oracle makes the BPE model of gotokenizers from ours. It has no byte fallback and no ignore_merges.
func oracle(t *testing.T, m *bpe) *bpemodel.BPEModel {
	file := filepath.Join(t.TempDir(), "vocab.json")
	data, err := json.Marshal(m.vocab)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	vocab, err := vocabulary.FromJSONFile(file)
	if err != nil {
		t.Fatal(err)
	}
	merges := bpemodel.NewMergeMap()
	for p, v := range m.merges {
		merges.Set(int(p>>32), int(uint32(p)), bpemodel.MergeValue{Rank: int(v >> 32), ID: int(uint32(v))})
	}
	return bpemodel.New(vocab, merges, 0, 0, "", "", "", false)
}

// TestAgainstOracle compares the merge loop with another implementation on random words.
func TestAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, name := range []string{"gpt2", "olmo2", "llama2", "gemma2"} {
		m := tiny(t, name).model
		ref := oracle(t, m)
		var tokens []string // those that need no byte fallback, and hence no unknown token
		for tok := range m.vocab {
			if len(tok) < 6 {
				tokens = append(tokens, tok)
			}
		}
		for range 300 {
			word := ""
			for range 1 + rng.IntN(60) {
				word += tokens[rng.IntN(len(tokens))]
			}
			want, err := ref.Tokenize(word)
			if err != nil {
				t.Fatal(err)
			}
			got := m.tokenize(word, false, newScratch())
			pos := 0
			for i := 0; i < max(len(got), len(want)); i++ {
				if i >= len(got) || i >= len(want) || int(got[i].id) != want[i].ID || pos != want[i].Offsets.Start {
					t.Fatalf("%s: %q: token %d: got %v, want %v", name, word, i, got, want)
				}
				pos += int(got[i].width)
			}
		}
	}
}
