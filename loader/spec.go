package loader

import (
	"math"

	"github.com/headscope/headscope/loader/rope"
)

// Activation is the nonlinearity of the MLP.
type Activation string

// The activations a Spec can name.
const (
	SiLU     Activation = "silu"
	GELU     Activation = "gelu"      // the exact form, x/2 (1 + erf(x/sqrt 2))
	GELUTanh Activation = "gelu_tanh" // its tanh approximation
)

// NormKind is what a norm of the residual stream computes, and in which precision its weight is applied. Statistics are float32 in all.
type NormKind string

const (
	RMSNorm       NormKind = "rms"         // cast back to the model's dtype, then times weight: Llama, Mistral, Qwen, Phi-3, Granite, SmolLM3, GLM
	RMSNormFloat  NormKind = "rms_float"   // times weight in float32, then cast: OLMo-2, OLMo-3
	RMSNormOffset NormKind = "rms_offset"  // times 1 + weight in float32, then cast: Gemma
	LayerNorm     NormKind = "layer"       // mean removed, weight and bias (where there is one) in float32, then cast: GPT-NeoX, StableLM, Cohere
	LayerNormBare NormKind = "layer_plain" // mean removed, no parameters: OLMo
)

// Norms says which of the four places of a layer have a norm. A parallel layer without PreMLP feeds its MLP what its attention reads.
type Norms struct{ PreAttn, PostAttn, PreMLP, PostMLP bool }

// QKNorm says over what queries and keys are normalised, after projection, bias and clipping and before rotation.
type QKNorm string

const (
	NoQKNorm      QKNorm = ""
	QKNormShared  QKNorm = "shared"   // each head by itself, one weight [headDim] for all: Qwen3, Gemma-3
	QKNormPerHead QKNorm = "per_head" // each head by itself and with its own weight, [heads, headDim]: StableLM, Cohere
	QKNormFull    QKNorm = "full"     // all heads of the layer together, weight [heads*headDim]: OLMo-2, OLMo-3
)

// Spec says what a checkpoint computes, free of its family's spelling. Every field that changes a number is here; what a
// family leaves to its class default has been filled in by the family's reader.
type Spec struct {
	Family       string // model_type of config.json, e.g. "llama"
	Architecture string // e.g. "LlamaForCausalLM"

	Layers       int
	Heads        int // query heads of a layer
	KVHeads      int // key/value heads of a layer; divides Heads
	HeadDim      int
	Hidden       int
	Intermediate int // width of the MLP
	Vocab        int // rows of the embedding
	MaxPositions int // longest sequence the checkpoint was made for

	Norm       NormKind
	NormEps    float64
	Norms      Norms
	QKNorm     QKNorm   // its kind is Norm's, LayerNorm without a bias where that is LayerNorm
	Parallel   Parallel // "" = the MLP reads the residual stream after the attention was added
	Activation Activation
	Gated      bool // down(act(gate x) * up x), else down(act(up x))
	Tied       bool // the output matrix is the embedding

	QKVClip       float64 // q, k and v are clipped to ±QKVClip after projection and bias; 0 = not
	ScoreScale    float64 // factor on q·k, 1/sqrt(HeadDim) in most families
	ScoreCap      float64 // scores s become cap*tanh(s/cap), before the mask; 0 = not
	LogitCap      float64 // the same for logits
	EmbedScale    float64 // factor on the embedding
	EmbedRound    bool    // EmbedScale is rounded to the model's dtype before it multiplies: Gemma
	ResidualScale float64 // factor on what attention and MLP add to the residual stream
	LogitScale    float64 // factor on the logits, before LogitCap
	LogitDivide   float64 // divisor of the logits (Granite); 1 = none. Apart from LogitScale because the roundings differ

	Tables      []rope.Config // the rotary tables that layers use
	Recompute   bool          // generation that outgrows a longrope table starts anew with the other one: Phi-3; else cached keys stay as they were turned
	Interleaved bool          // planes are neighbours (2i, 2i+1), else halves (i, i+rotary/2)
	RotateFloat bool          // rotation in float32, q and k cast back after: OLMo, Cohere; else in the model's dtype
	RoundTurns  bool          // with RotateFloat: cosines and sines are rounded to the model's dtype all the same: Cohere
	Kinds       []LayerKind   // of each layer

	EOS []int32 // end-of-sequence ids, of generation_config.json if there, else config.json
	BOS []int32

	DType string // dtype the checkpoint is stored in: "float32", "bfloat16", "float16"

	Params Params
}

// Parallel says in which order a layer whose MLP runs beside the attention, not after it, adds up.
type Parallel string

const (
	Sequential       Parallel = ""
	ParallelResidual Parallel = "residual_first" // (x + attention) + mlp: Cohere, StableLM
	ParallelBranches Parallel = "branches_first" // (mlp + attention) + x: GPT-NeoX
)

// LayerKind is what sets one layer's attention apart from another's.
type LayerKind struct {
	Window int // keys a query sees, its own included; 0 = all before it
	Table  int // index into Tables, Unrotated where queries and keys do not turn
}

// Unrotated is the table of a layer without rotation (NoPE).
const Unrotated = -1

// Group returns how many query heads share a key/value head.
func (s *Spec) Group() int { return s.Heads / s.KVHeads }

// Unrotated tells whether queries and keys of a layer do not turn (NoPE): its heads know no distance, and edits of planes change nothing there.
func (s *Spec) Unrotated(layer int) bool { return s.Kinds[layer].Table == Unrotated }

// Reaches tells whether a query of a layer sees a key so many positions before it. A head of a layer that does not reach a needle cannot
// retrieve it, whatever it would like to.
func (s *Spec) Reaches(layer, distance int) bool {
	w := s.Kinds[layer].Window
	return w == 0 || distance < w
}

// Longest is the longest sequence that the checkpoint takes, in tokens: MaxPositions, or any where a dynamic table stretches with the
// sequence.
func (s *Spec) Longest() int {
	for _, t := range s.Tables {
		if t.Type == "dynamic" {
			return math.MaxInt32
		}
	}
	return s.MaxPositions
}

// View is a set of rows of a stored tensor: Times blocks of Rows rows each, block i from row First + i*Stride. The zero values of all
// four stand for the whole tensor. A tensor of one axis has rows of one element.
type View struct {
	Tensor                     string
	First, Rows, Stride, Times int
}

// Param is one parameter of the model: its shape here, and the rows of the checkpoint that it is made of, one view after the other.
// Without views the model has no such parameter.
type Param struct {
	Shape []int
	Views []View
}

// Has tells whether the model has the parameter.
func (p Param) Has() bool { return len(p.Views) > 0 }

// Params says where the checkpoint keeps the parameters.
type Params struct {
	Embed                Param // [vocab, hidden]
	FinalNorm, FinalBias Param // [hidden]
	Head, HeadBias       Param // [vocab, hidden], [vocab]; Head is empty when Tied
	Layer                func(layer int) LayerParams
}

// LayerParams are the parameters of one decoder layer. Projections are [out, in], the heads of q, k and v one after the other.
type LayerParams struct {
	PreAttn, PreAttnBias   Param // [hidden]: the norms at the four places of Norms
	PostAttn, PostAttnBias Param
	PreMLP, PreMLPBias     Param
	PostMLP, PostMLPBias   Param
	Q, K, V, O             Param // [heads*headDim, hidden], [kvHeads*headDim, hidden] twice, [hidden, heads*headDim]
	QBias, KBias, VBias    Param
	OBias                  Param
	QNorm, KNorm           Param // shaped as QKNorm says
	Gate, Up, Down         Param // [intermediate, hidden] twice, [hidden, intermediate]; Gate is empty unless Gated
	GateBias, UpBias       Param
	DownBias               Param
}
