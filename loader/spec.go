package loader

import "github.com/headscope/headscope/loader/rope"

// Activation is the nonlinearity of the gated MLP.
type Activation string

// The activations a Spec can name.
const SiLU Activation = "silu"

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

	NormEps    float64
	Activation Activation
	Tied       bool // the output matrix is the embedding
	Rope       rope.Config

	EOS []int32 // end-of-sequence ids, of generation_config.json if there, else config.json
	BOS []int32

	DType string // dtype the checkpoint is stored in: "float32", "bfloat16", "float16"

	Names Names
}

// Group returns how many query heads share a key/value head.
func (s *Spec) Group() int { return s.Heads / s.KVHeads }

// Names says under which names the checkpoint keeps its tensors. Layer gives those of one layer; an empty name means that the
// family has no such tensor.
type Names struct {
	Embed, FinalNorm, Head string // Head is empty when Tied
	Layer                  func(layer int) LayerNames
}

// LayerNames are the tensor names of one decoder layer. Projections are stored [out, in].
type LayerNames struct {
	InputNorm           string // [hidden]
	Q, K, V, O          string // [heads*headDim, hidden], [kvHeads*headDim, hidden] twice, [hidden, heads*headDim]
	QBias, KBias, VBias string
	OBias               string
	PostNorm            string // before the MLP, [hidden]
	Gate, Up, Down      string // [intermediate, hidden] twice, [hidden, intermediate]
	GateBias, UpBias    string
	DownBias            string
}
