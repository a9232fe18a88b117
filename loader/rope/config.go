package rope

// Config is the rotary part of a checkpoint's config, in transformers' terms. Zero means "not given".
type Config struct {
	Type  string  // "default", "llama3", ...
	Theta float64 // base of the ladder

	Factor               float64
	LowFreqFactor        float64
	HighFreqFactor       float64
	OriginalMaxPositions int

	RotaryDim int // rotated dimensions of a head, even; the rest pass unrotated
}
