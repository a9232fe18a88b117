package loader

import (
	"slices"

	"github.com/headscope/headscope/loader/rope"
)

// SpecInspection is a Spec in a form to print. Factors that are 1 and caps that are not in use stay out.
type SpecInspection struct {
	Family       string `json:"family"`
	Architecture string `json:"architecture"`

	Layers       int `json:"layers"`
	Heads        int `json:"heads"`
	KVHeads      int `json:"kv_heads"`
	Group        int `json:"group"` // query heads that share a key/value head
	HeadDim      int `json:"head_dim"`
	Hidden       int `json:"hidden"`
	Intermediate int `json:"intermediate"`
	Vocab        int `json:"vocab"`
	MaxPositions int `json:"max_positions"`

	Norm       string   `json:"norm"`
	NormEps    float64  `json:"norm_eps"`
	Norms      []string `json:"norms"` // places in a layer
	QKNorm     string   `json:"qk_norm,omitempty"`
	Parallel   string   `json:"parallel,omitempty"`
	Activation string   `json:"activation"`
	Gated      bool     `json:"gated"`
	Biases     []string `json:"biases"` // of a layer
	Tied       bool     `json:"tied"`

	ScoreScale    float64 `json:"score_scale"`
	QKVClip       float64 `json:"qkv_clip,omitempty"`
	ScoreCap      float64 `json:"score_cap,omitempty"`
	LogitCap      float64 `json:"logit_cap,omitempty"`
	EmbedScale    float64 `json:"embed_scale,omitempty"`
	ResidualScale float64 `json:"residual_scale,omitempty"`
	LogitScale    float64 `json:"logit_scale,omitempty"`
	LogitDivide   float64 `json:"logit_divide,omitempty"`

	Pairs     string            `json:"pairs"`     // how planes lie in a head: "half" or "interleaved"
	Tables    []TableInspection `json:"tables"`    // rotary tables
	Attention []LayerAttention  `json:"attention"` // of each layer

	EOS []int32 `json:"eos"`
	BOS []int32 `json:"bos"`
}

// LayerAttention is the kind of one layer's attention.
type LayerAttention struct {
	Window int  `json:"window"` // keys a query sees, its own included; 0 = all before it
	Table  *int `json:"table"`  // index into Tables, null where queries and keys do not turn
}

// TableInspection describes a rotary table at the checkpoint's longest sequence.
type TableInspection struct {
	Type         string  `json:"type"`
	Theta        float64 `json:"theta"`
	RotaryDim    int     `json:"rotary_dim"`
	Scale        float64 `json:"scale"`                   // factor on cosine and sine
	VariesBeyond int     `json:"varies_beyond,omitempty"` // see rope.Config.VariesBeyond

	Frequencies []float64 `json:"frequencies"` // of each plane, radians a token
	Wavelengths []float64 `json:"wavelengths"` // of each plane, tokens a turn
	Turning     int       `json:"turning"`     // planes that turn at least once over the longest sequence

	ShortWavelengths []float64 `json:"short_wavelengths,omitempty"` // longrope: of passes up to VariesBeyond

	Parameters map[string]float64 `json:"parameters"` // of the type, by config key

	Config rope.Config `json:"-"` // from which the table can be built for another length
}

func inspectSpec(s *Spec) (SpecInspection, error) {
	out := SpecInspection{
		Family: s.Family, Architecture: s.Architecture,
		Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, Group: s.Group(), HeadDim: s.HeadDim, Hidden: s.Hidden, Intermediate: s.Intermediate,
		Vocab: s.Vocab, MaxPositions: s.MaxPositions,
		Norm: string(s.Norm), NormEps: s.NormEps, Norms: []string{}, QKNorm: string(s.QKNorm), Parallel: string(s.Parallel),
		Activation: string(s.Activation), Gated: s.Gated, Biases: []string{}, Tied: s.Tied,
		ScoreScale: s.ScoreScale, QKVClip: s.QKVClip, ScoreCap: s.ScoreCap, LogitCap: s.LogitCap,
		EmbedScale: unlessOne(s.EmbedScale), ResidualScale: unlessOne(s.ResidualScale), LogitScale: unlessOne(s.LogitScale), LogitDivide: unlessOne(s.LogitDivide),
		Pairs: "half", EOS: s.EOS, BOS: s.BOS,
	}
	if s.Interleaved {
		out.Pairs = "interleaved"
	}
	l := s.Params.Layer(0)
	for _, place := range []struct {
		there bool
		name  string
	}{{s.Norms.PreAttn, "before attention"}, {s.Norms.PostAttn, "after attention"}, {s.Norms.PreMLP, "before mlp"}, {s.Norms.PostMLP, "after mlp"}} {
		if place.there {
			out.Norms = append(out.Norms, place.name)
		}
	}
	for _, bias := range []struct {
		p    Param
		name string
	}{{l.PreAttnBias, "norms"}, {l.QBias, "q"}, {l.KBias, "k"}, {l.VBias, "v"}, {l.OBias, "o"}, {l.GateBias, "gate"}, {l.UpBias, "up"}, {l.DownBias, "down"}} {
		if bias.p.Has() {
			out.Biases = append(out.Biases, bias.name)
		}
	}
	for _, k := range s.Kinds {
		a := LayerAttention{Window: k.Window}
		if k.Table != Unrotated {
			a.Table = &k.Table
		}
		out.Attention = append(out.Attention, a)
	}
	for _, c := range s.Tables {
		t, err := inspectTable(c, s)
		if err != nil {
			return out, err
		}
		out.Tables = append(out.Tables, t)
	}
	return out, nil
}

func unlessOne(x float64) float64 {
	if x == 1 {
		return 0
	}
	return x
}

func inspectTable(c rope.Config, s *Spec) (TableInspection, error) {
	t, err := rope.New(c, s.HeadDim, s.MaxPositions)
	if err != nil {
		return TableInspection{}, err
	}
	out := TableInspection{Type: c.Type, Theta: c.Theta, RotaryDim: t.RotaryDim, Scale: t.Scale, VariesBeyond: c.VariesBeyond(),
		Frequencies: slices.Clone(t.InvFreq), Parameters: map[string]float64{}, Config: c}
	for _, w := range t.Wavelengths() {
		out.Wavelengths = append(out.Wavelengths, w)
		if w <= float64(s.MaxPositions) {
			out.Turning++
		}
	}
	if c.Type == "longrope" {
		short, err := rope.New(c, s.HeadDim, c.OriginalMaxPositions)
		if err != nil {
			return TableInspection{}, err
		}
		out.ShortWavelengths = short.Wavelengths()
	}
	for key, v := range map[string]float64{
		"factor": c.Factor, "low_freq_factor": c.LowFreqFactor, "high_freq_factor": c.HighFreqFactor,
		"original_max_position_embeddings": float64(c.OriginalMaxPositions), "beta_fast": c.BetaFast, "beta_slow": c.BetaSlow,
		"mscale": c.MScale, "mscale_all_dim": c.MScaleAllDim, "attention_factor": c.AttentionFactor,
	} {
		if v != 0 {
			out.Parameters[key] = v
		}
	}
	return out, nil
}
