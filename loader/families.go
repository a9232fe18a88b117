package loader

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// family is an architecture's entry.
type family struct {
	read   func(*config) Spec
	models string // well-known checkpoints of it
}

// families maps the architecture of config.json to the reader of its family.
var families = map[string]family{
	"CohereForCausalLM":              {cohere, "Command R, Aya 23"},
	"GPTNeoXForCausalLM":             {gptNeoX, "Pythia, GPT-NeoX-20B"},
	"Gemma2ForCausalLM":              {gemma2, "Gemma 2"},
	"Gemma3ForCausalLM":              {gemma3, "Gemma 3 270M and 1B"},
	"Gemma3ForConditionalGeneration": {gemma3Vision, "Gemma 3 4B, 12B and 27B, without images"},
	"GemmaForCausalLM":               {gemma, "Gemma"},
	"Glm4ForCausalLM":                {glm4, "GLM-4-0414"},
	"GlmForCausalLM":                 {glm, "GLM-4-9B in transformers' layout, GLM-Edge"},
	"GraniteForCausalLM":             {granite, "Granite 3, dense"},
	"LlamaForCausalLM":               {llama, "Llama 2 and 3, SmolLM2, Falcon3, Yi, DeepSeek-LLM, TinyLlama"},
	"MistralForCausalLM":             {mistral, "Mistral 7B, Nemo, Zephyr"},
	"Olmo2ForCausalLM":               {olmo2, "OLMo 2"},
	"Olmo3ForCausalLM":               {olmo3, "Olmo 3"},
	"OlmoForCausalLM":                {olmo, "OLMo"},
	"Phi3ForCausalLM":                {phi3, "Phi-3 and Phi-3.5 mini and medium, Phi-4, Phi-4-mini"},
	"Qwen2ForCausalLM":               {qwen2, "Qwen2, Qwen2.5, DeepSeek-R1-Distill-Qwen"},
	"Qwen3ForCausalLM":               {qwen3, "Qwen3, dense"},
	"SmolLM3ForCausalLM":             {smolLM3, "SmolLM3"},
	"StableLmForCausalLM":            {stableLM, "StableLM 2, StableLM 3B"},
}

// otherParts are the tensors of an architecture that the decoder does not use.
var otherParts = map[string]*regexp.Regexp{"Gemma3ForConditionalGeneration": gemma3VisionTensors}

// Architectures lists what Open can read, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(families)) }

// Models names well-known checkpoints of an architecture that Open can read, for people; empty for another.
func Models(architecture string) string { return families[architecture].models }

// ParseConfig reads the text of a config.json, and of a generation_config.json where there is one (nil otherwise). Spec.DType stays
// empty: it is a property of the weights.
//
// A key that may change a number and is not understood, and a value outside what this module computes, are an *UnsupportedError.
func ParseConfig(configJSON, generationJSON []byte) (Spec, error) {
	c, err := newConfig(configFile, configJSON)
	if err != nil {
		return Spec{}, err
	}
	arch, err := architecture(c)
	if err != nil {
		return Spec{}, err
	}
	if err := refuseQuantised(c); err != nil {
		return Spec{}, err
	}
	c.ignore(harmlessKeys...)
	s := families[arch].read(c)
	s.Architecture = arch
	s.EOS, s.BOS = c.tokenIDs("eos_token_id", s.Vocab, s.EOS), c.tokenIDs("bos_token_id", s.Vocab, s.BOS)
	neutral(c, &s)
	if err := c.finish(); err != nil {
		return Spec{}, err
	}
	if s.Heads%s.KVHeads != 0 {
		return Spec{}, &ConfigError{File: configFile, Key: "num_key_value_heads", Got: fmt.Sprint(s.KVHeads), Want: fmt.Sprintf("a divisor of the %d query heads", s.Heads)}
	}
	if generationJSON == nil {
		return s, nil
	}
	g, err := newConfig(generationFile, generationJSON)
	if err != nil {
		return Spec{}, err
	}
	if ids := g.tokenIDs("eos_token_id", s.Vocab, nil); ids != nil {
		s.EOS = ids
	}
	if ids := g.tokenIDs("bos_token_id", s.Vocab, nil); ids != nil {
		s.BOS = ids
	}
	return s, g.err // the other keys choose how to sample, which is the caller's business
}

func architecture(c *config) (string, error) {
	var list []string
	if !c.value("architectures", "a list with one architecture", &list) && c.err == nil {
		c.want("architectures", "nothing", "a list with one architecture")
	}
	if c.err == nil && len(list) != 1 {
		c.want("architectures", shown(c.keys["architectures"]), "a list with one architecture")
	}
	if c.err != nil {
		return "", c.err
	}
	if families[list[0]].read == nil {
		return "", &UnsupportedError{File: c.file, Key: "architectures", Got: fmt.Sprintf("%q", list[0]),
			Want: "one of " + strings.Join(Architectures(), ", "), hint: "base models without a language-model head and other families are not read"}
	}
	return list[0], nil
}

// quoted prints v as JSON for an error message.
func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shown(b)
}
