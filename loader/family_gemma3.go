package loader

import (
	"cmp"
	"regexp"
)

// gemma3 reads Gemma3ForCausalLM, the text model: five layers of six have a window and a rotary base of their own.
func gemma3(c *config) Spec { return gemma3Text(c, "") }

// gemma3Vision reads the text model of Gemma3ForConditionalGeneration, which is what it computes where a prompt has no image.
func gemma3Vision(c *config) Spec {
	if c.text("model_type", "") != "gemma3" {
		c.want("model_type", shown(c.keys["model_type"]), `"gemma3" beside this architecture`)
	}
	text := c.object("text_config")
	if text == nil {
		c.want("text_config", "nothing", "an object")
		return Spec{}
	}
	text.ignore(harmlessKeys...)
	s := gemma3Text(text, "language_model.")
	s.Tied = c.boolean("tie_word_embeddings", s.Tied)
	s.EOS, s.BOS = text.tokenIDs("eos_token_id", s.Vocab, s.EOS), text.tokenIDs("bos_token_id", s.Vocab, s.BOS)
	neutral(text, &s)
	c.fail(text.finish())
	if !s.Tied {
		c.refuse("tie_word_embeddings", "true, as in all published files", "")
	}
	c.ignore("vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index")
	return s
}

// gemma3VisionTensors are those that the text model leaves alone.
var gemma3VisionTensors = regexp.MustCompile(`^(vision_tower|multi_modal_projector)\.`)

func gemma3Text(c *config, prefix string) Spec {
	s := class{
		modelType: "gemma3_text", layers: 26, heads: 8, hidden: 2304, intermediate: 9216, vocab: 262208, // published files rely on these
		maxPositions: 131072, kvHeads: 4, headDim: 256, epsKey: "rms_norm_eps", eps: 1e-6,
		actKey: "hidden_activation", act: "gelu_pytorch_tanh", tied: true, eos: []int32{1}, bos: []int32{2},
	}.read(c)
	o := gemmaSandwich(c, &s, 0, 0)
	if s.ScoreCap != 0 {
		c.refuse("attn_logit_softcapping", "null", "transformers' class overlooks it: set it to null for what transformers computes")
	}
	s.QKNorm, o.qNorm, o.kNorm, o.prefix = QKNormShared, "q_norm", "k_norm", prefix

	pattern := c.integer("sliding_window_pattern", 6)
	if cmp.Or(c.integer("_sliding_window_pattern", 0), pattern) != pattern && !c.has("layer_types") {
		c.refuse("_sliding_window_pattern", "layer_types or sliding_window_pattern beside it: transformers' class reads no other", "")
	}
	sliding := layerTypes(c, &s, func(l int) bool { return (l+1)%pattern != 0 })
	slide(c, &s, sliding, c.nullableInteger("sliding_window", 4096))
	ropeByLayer(c, &s, sliding, layerRope{full: ropeDefaults{theta: 1e6}, local: ropeDefaults{theta: 10000}, localKey: "rope_local_base_freq"})
	s.Params = o.params(s)
	return s
}
