package loader

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// families maps the architecture of config.json to the reader of its family.
var families = map[string]func(*config) Spec{
	"CohereForCausalLM":              cohere,
	"Gemma2ForCausalLM":              gemma2,
	"Gemma3ForCausalLM":              gemma3,
	"Gemma3ForConditionalGeneration": gemma3Vision,
	"GemmaForCausalLM":               gemma,
	"Glm4ForCausalLM":                glm4,
	"GlmForCausalLM":                 glm,
	"GPTNeoXForCausalLM":             gptNeoX,
	"GraniteForCausalLM":             granite,
	"LlamaForCausalLM":               llama,
	"MistralForCausalLM":             mistral,
	"Olmo2ForCausalLM":               olmo2,
	"Olmo3ForCausalLM":               olmo3,
	"OlmoForCausalLM":                olmo,
	"Phi3ForCausalLM":                phi3,
	"Qwen2ForCausalLM":               qwen2,
	"Qwen3ForCausalLM":               qwen3,
	"SmolLM3ForCausalLM":             smolLM3,
	"StableLmForCausalLM":            stableLM,
}

// otherParts are the tensors of an architecture that the decoder does not use.
var otherParts = map[string]*regexp.Regexp{"Gemma3ForConditionalGeneration": gemma3VisionTensors}

// Architectures lists what Open can read, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(families)) }

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
	s := families[arch](c)
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
	if families[list[0]] == nil {
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
