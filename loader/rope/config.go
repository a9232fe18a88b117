package rope

import (
	"fmt"
	"math"
	"strings"
)

// Config is the rotary part of a checkpoint's config, in transformers' terms. Zero means "not given".
type Config struct {
	Type  string  // of Types
	Theta float64 // base of the ladder

	RotaryDim int // rotated dimensions of a head, even; the rest pass unrotated. 0 = all

	Factor               float64 // linear, dynamic, llama3, proportional; yarn and longrope take MaxPositions/OriginalMaxPositions without it
	OriginalMaxPositions int     // llama3, yarn, longrope: positions before scaling
	MaxPositions         int     // dynamic: the length up to which nothing is scaled; yarn and longrope: see Factor

	LowFreqFactor  float64 // llama3
	HighFreqFactor float64

	BetaFast     float64 // yarn: turns over the original length above which a plane is kept; 32 without it
	BetaSlow     float64 // and below which it is divided by Factor; 1 without it
	MScale       float64 // yarn: both or neither, see attentionFactor
	MScaleAllDim float64
	Untruncated  bool // yarn: the ends of its ramp are not rounded to whole planes ("truncate": false)

	AttentionFactor float64   // yarn, longrope: factor on cosine and sine; follows from the others without it
	ShortFactor     []float64 // longrope: divisors [planes] up to OriginalMaxPositions, and beyond
	LongFactor      []float64

	Proportion float64 // proportional: part of the planes that turn, 1 without it

	Exact []float64 // type "exact", which no config.json has: the frequencies themselves [planes]
}

// Types lists the values of Config.Type that New builds.
func Types() []string {
	return []string{"default", "dynamic", "linear", "llama3", "longrope", "proportional", "yarn"}
}

// UnsupportedError says that New does not build tables of this type.
type UnsupportedError struct{ Type string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("rope type %q is not supported, want one of %s", e.Type, strings.Join(Types(), ", "))
}

// VariesBeyond returns the longest pass, in tokens, whose table is that of all shorter ones. Beyond it longrope has one other table, and
// dynamic has a table for every length. 0 stands for types with one table for all lengths.
//
// The length of a pass is its largest position plus one, keys in a cache included. transformers 5.24.0 chooses the table anew for each
// forward call; keys that are in the cache keep the rotation of the pass that made them.
func (c Config) VariesBeyond() int {
	switch c.Type {
	case "dynamic":
		return c.MaxPositions
	case "longrope":
		return c.OriginalMaxPositions
	}
	return 0
}

// need is a config key without which a type has no table.
type need struct {
	key   string
	value float64
}

// require returns an error for the first value that is not a finite number above 0.
func (c Config) require(needs ...need) error {
	for _, n := range needs {
		if !positive(n.value) {
			return fmt.Errorf("rope: %s: %s: got %v, want a finite number > 0 (0 stands for a missing key)", c.Type, n.key, n.value)
		}
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func nonNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
