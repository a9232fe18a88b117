package heads

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Format names how a file writes heads down.
type Format string

// The formats that are read and written.
const (
	FormatResult  Format = "headscope" // a result of ours
	FormatProfile Format = "profile"   // published retrieval-head profiles: argmax_scores, copy_scores, argmax_heads, copy_heads
	FormatWu      Format = "wu"        // nightdessert's head scores: {"L-H": [a score a trial]}
	FormatQRHead  Format = "qrhead"    // QRHead: "L-H,L-H" alone or as attn_head_set of a YAML file, or [["L-H", score], ...]
	FormatDuo     Format = "duo"       // DuoAttention's gates: tab-separated, a row a layer, a column a key/value head
	FormatLabels  Format = "labels"    // TransformerLens's labels: L13H4
	FormatPairs   Format = "pairs"     // JSON [[layer, head], ...]
)

// Shape is the size of a model as far as a file tells; 0 is not known.
type Shape struct {
	Layers  int `json:"layers"`
	Heads   int `json:"heads"` // query heads of a layer
	KVHeads int `json:"kv_heads"`
}

// Group returns how many query heads share a key/value head, 0 where that is not known.
func (s Shape) Group() int {
	if s.Heads == 0 || s.KVHeads == 0 || s.Heads%s.KVHeads != 0 {
		return 0
	}
	return s.Heads / s.KVHeads
}

// Detected is what one detector says in a file.
type Detected struct {
	Detector string
	Heads    Ranking     // the heads it lists, best first where Ordered; nil where it lists none and has scores alone
	Ordered  bool        // the order of Heads means something
	Scores   *Scores     // of all heads; nil where the file has none
	Trials   [][]float64 // [layers*heads][trials]: what Scores is the mean of, where the file keeps it
}

// Document is a file that speaks about heads. Its first detector is the one that the file is about.
type Document struct {
	Path      string
	Format    Format
	Model     string // as the file names it; "" if it does not
	Shape     Shape
	KV        bool    // its heads are key/value heads: scores are [layers, kv heads]
	Threshold float64 // from which on a score makes a head; 0 where the file has none
	Detectors []Detected
}

// Detector returns what a detector says.
func (d *Document) Detector(name string) (Detected, bool) {
	for _, x := range d.Detectors {
		if x.Detector == name {
			return x, true
		}
	}
	return Detected{}, false
}

// ReadDocument reads a file in any of the formats and finds out which. Errors name the file and the place in it.
func ReadDocument(path string) (*Document, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err // an *fs.PathError names the file
	}
	d, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.Path = path
	return d, nil
}

// Decode reads what such a file holds.
func Decode(b []byte) (*Document, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff"))
	switch {
	case text == "":
		return nil, errors.New("the file is empty")
	case strings.HasPrefix(text, "{"):
		return decodeObject([]byte(text))
	case isScoredList(text):
		return decodeScoredList([]byte(text))
	case isTable(text):
		return decodeDuo(text)
	case yamlKey.MatchString(text):
		return decodeYAML(text)
	}
	r, err := ParseRanking(text)
	if err != nil {
		return nil, err
	}
	d := &Document{Format: listFormat(text), Detectors: []Detected{{Detector: "listed", Heads: r, Ordered: true}}}
	if d.Format == FormatQRHead {
		d.Detectors[0].Detector = "qr"
	}
	return d, d.check()
}

// listFormat tells the forms of a plain list apart by its first head.
func listFormat(text string) Format {
	switch first := strings.TrimLeft(text, "[ \t\r\n\""); {
	case strings.HasPrefix(text, "["):
		return FormatPairs
	case strings.HasPrefix(first, "L"), strings.HasPrefix(first, "l"), text == none:
		return FormatLabels
	}
	return FormatQRHead
}

// check holds heads and scores against the shape.
func (d *Document) check() error {
	width := d.Shape.Heads
	if d.KV {
		width = d.Shape.KVHeads
	}
	for _, x := range d.Detectors {
		if s := x.Scores; s != nil && (s.Layers != d.Shape.Layers || s.Heads != width) {
			return fmt.Errorf("%s: got scores of %d layers x %d heads, want %d x %d", x.Detector, s.Layers, s.Heads, d.Shape.Layers, width)
		}
		if d.Shape.Layers == 0 {
			continue
		}
		if err := x.Heads.Set().Validate(d.Shape.Layers, width); err != nil {
			return fmt.Errorf("%s: %w", x.Detector, err)
		}
	}
	return nil
}
