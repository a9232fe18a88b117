package needle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Haystack is a stock of sentences read from files.
type Haystack struct {
	Source    string `json:"source"` // base name of the file or folder
	SHA256    string `json:"sha256"` // of the files' names and bytes, in order
	Files     int    `json:"files"`
	Sentences int    `json:"sentences"` // kept
	Dropped   int    `json:"dropped"`   // too short or long, repeated, no sentence, or with words that look like codes, needles or markup

	split map[Split][]string
}

const (
	shortestSentence = 12  // bytes
	longestSentence  = 400 // bytes
	fewestSentences  = 40  // of each split
)

// LoadHaystack reads a text file, or every .txt and .md file below a folder in the order of their paths, and cuts them into
// sentences. Its hash puts each sentence into one split for good. The last few tokens of a length are made up of short
// generated sentences here, too.
func LoadHaystack(path string) (*Haystack, error) {
	files, err := haystackFiles(path)
	if err != nil {
		return nil, fmt.Errorf("haystack: %w", err)
	}
	h := &Haystack{Source: filepath.Base(path), Files: len(files), split: map[Split][]string{}}
	sum := sha256.New()
	seen := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("haystack: %w", err)
		}
		if !utf8.Valid(data) {
			return nil, fmt.Errorf("haystack: %s: not UTF-8", f)
		}
		fmt.Fprintf(sum, "%s\x00%d\x00", filepath.Base(f), len(data))
		sum.Write(data)
		h.add(string(data), seen)
	}
	h.SHA256 = hex.EncodeToString(sum.Sum(nil))
	for _, s := range []Split{Detect, Test} { // Agreement's quarter is asked of few
		if n := len(h.split[s]); n < fewestSentences {
			return nil, fmt.Errorf("haystack: %s: %d sentences for %s (%d dropped), want at least %d: too little text", path, n, s, h.Dropped, fewestSentences)
		}
	}
	return h, nil
}

func haystackFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(p); d.Type().IsRegular() && (ext == ".txt" || ext == ".md") {
			files = append(files, p)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New(path + ": no .txt or .md files")
	}
	slices.Sort(files)
	return files, err
}

func (h *Haystack) add(text string, seen map[string]bool) {
	for _, s := range splitSentences(text) {
		if len(s) < shortestSentence || len(s) > longestSentence || seen[s] || !plainSentence(s) {
			h.Dropped++
			continue
		}
		seen[s] = true
		h.Sentences++
		split := splitOf(s)
		h.split[split] = append(h.split[split], s)
	}
}

// splitOf says which split a sentence of a file belongs to for good: a quarter Agreement, the others by one bit of a hash.
func splitOf(sentence string) Split {
	h := fnv.New64a()
	h.Write([]byte(sentence))
	switch {
	case h.Sum64()>>33&3 == 3:
		return Agreement
	case Detect.holds(sentence):
		return Detect
	}
	return Test
}

// splitSentences cuts after . ! ? (and closing quotes) that white space and no small letter follow, and at empty lines. White space
// becomes one space.
func splitSentences(text string) []string {
	var out []string
	for _, par := range paragraphs(text) {
		words := strings.Fields(par)
		start := 0
		for i, w := range words {
			last := i+1 == len(words)
			if !last && (!endsSentence(w) || unicode.IsLower(firstRune(words[i+1]))) {
				continue
			}
			out = append(out, strings.Join(words[start:i+1], " "))
			start = i + 1
		}
	}
	return out
}

func paragraphs(text string) []string {
	return strings.Split(string(bytes.ReplaceAll([]byte(text), []byte("\r\n"), []byte("\n"))), "\n\n")
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// endsSentence takes the single letter of an initial ("J.") and a title for no end.
func endsSentence(word string) bool {
	w := strings.TrimRight(word, `"'”’)`)
	switch w {
	case "Mr.", "Mrs.", "Ms.", "Dr.", "St.", "Prof.", "vs.", "e.g.", "i.e.":
		return false
	}
	return strings.HasSuffix(w, "!") || strings.HasSuffix(w, "?") || (strings.HasSuffix(w, ".") && len(w) > 2)
}

// plainSentence says whether a sentence can stand in a haystack: it begins and ends like one, and holds no markup, no word that could
// be a code, and no content bigram of a needle or question.
func plainSentence(s string) bool {
	if !endsSentence(s[strings.LastIndexByte(s, ' ')+1:]) || unicode.IsLower(firstRune(s)) || strings.ContainsAny(s, "<>[]{}|\u2581\u0120") {
		return false
	}
	for _, w := range strings.Fields(s) {
		if codeLike(w) {
			return false
		}
	}
	b := contentBigrams(s)
	return !slices.ContainsFunc(b, func(x [2]string) bool { return reservedBigrams[x] })
}

// codeLike says whether a word has both a capital and a digit, as all codes have.
func codeLike(word string) bool {
	return strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsDigit)
}

// sentences yields the split's sentences in a drawn order, each once.
func (h *Haystack) sentences(rng *rand.Rand, split Split) iter.Seq[string] {
	list := h.split[split]
	return func(yield func(string) bool) {
		for _, i := range rng.Perm(len(list)) {
			if !yield(list[i]) {
				return
			}
		}
	}
}
