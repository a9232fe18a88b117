package pretrain

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Special tokens, the first two ids.
const (
	beginToken = "<|begin|>"
	endToken   = "<|end|>"
	begin      = int32(0)
	end        = int32(1)
	firstByte  = int32(2) // ids of the 256 bytes, then those of the words
	firstWord  = firstByte + 256
)

// Task is the needle-in-text task: its vocabulary, and texts in it.
type Task struct {
	words []string // words of ids firstWord, firstWord+1, ...; all but those that begin a text have their space before them
	ids   map[string]int32
}

// NewTask returns the task. It has no options: the words are fixed, and a text follows from a generator of random numbers.
func NewTask() *Task {
	inside, first := map[string]bool{}, map[string]bool{}
	put := func(words ...string) {
		for _, w := range words {
			if w = strings.Trim(w, ".,?"); w != "" && !strings.HasPrefix(w, "{") {
				inside[" "+w] = true
			}
		}
	}
	put(places...)
	put(kinds...)
	put(codeWords...)
	for _, list := range haystackWords {
		put(list...)
	}
	for _, s := range append([]string{needleSentence, questionSentence, answerPrefix}, haystackSentences...) {
		put(strings.Fields(s)...)
		if w := strings.Fields(s)[0]; !strings.HasPrefix(w, "{") {
			first[w] = true
		}
	}
	for _, w := range haystackWords["time"] {
		first[w] = true
	}
	for _, w := range kinds {
		first[w] = true
	}
	t := &Task{ids: map[string]int32{}}
	t.words = append(slices.Sorted(maps.Keys(inside)), slices.Sorted(maps.Keys(first))...)
	for i, w := range t.words {
		t.ids[w] = firstWord + int32(i)
	}
	return t
}

// Vocab is the number of tokens.
func (t *Task) Vocab() int { return int(firstWord) + len(t.words) }

// text is a text and its tokens, written word by word.
type text struct {
	task  *Task
	bytes strings.Builder
	ids   []int32
}

func (t *Task) newText() *text { return &text{task: t, ids: []int32{begin}} }

// add writes words, each a token, with the punctuation behind them, each mark a token, and returns the bytes it has written.
func (x *text) add(words string) (span [2]int) {
	space := x.bytes.Len() > 0
	span[0] = x.bytes.Len()
	if space {
		span[0]++
	}
	for _, w := range strings.Fields(words) {
		bare := strings.TrimRight(w, ".,?")
		if space {
			bare = " " + bare
			w = " " + w
		}
		id, ok := x.task.ids[bare]
		if !ok {
			panic("pretrain: no token for " + bare)
		}
		x.ids = append(x.ids, id)
		for _, mark := range w[len(bare):] {
			x.ids = append(x.ids, byteID(byte(mark)))
		}
		x.bytes.WriteString(w)
		space = true
	}
	span[1] = x.bytes.Len()
	return span
}

func byteID(b byte) int32 { return firstByte + int32(b) }

// fact is what a needle says.
type fact struct{ kind, place, code string }

func (f fact) fill(sentence string) string {
	return strings.NewReplacer("{Kind}", f.kind, "{place}", f.place, "{code}", f.code).Replace(sentence)
}

// haystack draws a sentence without a code.
func haystack(rng *rand.Rand) string {
	s := haystackSentences[rng.IntN(len(haystackSentences))]
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "{")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		list := haystackWords[name]
		out.WriteString(list[rng.IntN(len(list))])
		s = after
	}
}

// tokensOf counts the tokens of a sentence: its words and its marks.
func tokensOf(sentence string) int {
	return len(strings.Fields(sentence)) + strings.Count(sentence, ".") + strings.Count(sentence, ",") + strings.Count(sentence, "?")
}

// CodeSplit keeps the codes of training and of the prompt sets apart.
type CodeSplit string

// The splits. No code of one occurs in another.
const (
	Training CodeSplit = "train"
	Validate CodeSplit = "validate" // what training is watched on
	Detect   CodeSplit = "detect"
	Test     CodeSplit = "test"
)

// splitOf says which split a code is in.
func splitOf(code string) CodeSplit {
	h := fnv.New64a()
	h.Write([]byte(code))
	switch (h.Sum64() >> 32) % 8 {
	case 0:
		return Detect
	case 1:
		return Test
	case 2:
		return Validate
	}
	return Training
}

// codeTokens is the length of every code.
const codeTokens = 3

// facts draws n facts about different places whose codes share no word.
func facts(rng *rand.Rand, split CodeSplit, n int) []fact {
	where := rng.Perm(len(places))
	kind := kinds[rng.IntN(len(kinds))]
	used := map[string]bool{}
	out := make([]fact, n)
	for i := range out {
		if i > 1 { // the first two are of a kind, so that only the place tells them apart
			kind = kinds[rng.IntN(len(kinds))]
		}
		out[i] = fact{kind, places[where[i]], drawCode(rng, split, used)}
	}
	return out
}

// drawCode draws a code of the split that has none of the used words, and adds its words to them.
func drawCode(rng *rand.Rand, split CodeSplit, used map[string]bool) string {
	for {
		var words []string
		for _, w := range rng.Perm(len(codeWords)) {
			if !used[codeWords[w]] && len(words) < codeTokens {
				words = append(words, codeWords[w])
			}
		}
		if code := strings.Join(words, " "); splitOf(code) == split {
			for _, w := range words {
				used[w] = true
			}
			return code
		}
	}
}
