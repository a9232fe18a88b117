package harness

import (
	_ "embed"

	"github.com/headscope/headscope/loader/builtin"
)

// Prompt sets of the embedded model, in its own vocabulary: 40 prompts of 113 to 124 tokens, so that the answer fits into 128: a code of
// three words and the end token. Each has a decoy. No code of one is in the other, nor among those the model was trained on.
const (
	OwnTest   = "builtin:needle128"
	OwnDetect = "builtin:needle128-detect"
)

var (
	//go:embed prompts/needle128.jsonl
	needle128 []byte
	//go:embed prompts/needle128_detect.jsonl
	needle128Detect []byte
)

// builtinSets are the embedded prompt sets by name.
func builtinSets() map[string][]byte {
	return map[string][]byte{BuiltinPrompts: needle512, OwnTest: needle128, OwnDetect: needle128Detect}
}

// OwnLimit is how many prompts of such a set an experiment takes where nothing is said: two of each depth, enough for McNemar's test to see
// that recall is gone, few enough for the pure-Go backend.
const OwnLimit = 10

// OwnPrompts names the prompt sets that go with an embedded model, whose vocabulary is too small for generated ones; empty for any other
// reference.
func OwnPrompts(ref string) (test, detect string) {
	if ref != builtin.Needle {
		return "", ""
	}
	return OwnTest, OwnDetect
}
