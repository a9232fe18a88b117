package loader

import (
	"path/filepath"
	"strings"

	"github.com/headscope/headscope/loader/safetensors"
)

// Quantised checkpoints store weights as integers or in 8-bit floats beside scales, under other names. They are recognised so that the
// error can say what they are; no number of them is read.

// quantisedHints says, by quant_method of quantization_config, how float weights are had.
var quantisedHints = map[string]string{
	"bitsandbytes":       "load it in transformers, call model.dequantize() and save_pretrained(DIR), or use the checkpoint before quantisation",
	"fp8":                "load it in transformers with FineGrainedFP8Config(dequantize=True) and save_pretrained(DIR), or use the checkpoint before quantisation",
	"mxfp4":              "load it in transformers with Mxfp4Config(dequantize=True) and save_pretrained(DIR), or use the checkpoint before quantisation",
	"compressed-tensors": "load it in transformers with CompressedTensorsConfig(run_compressed=False) and save_pretrained(DIR), or use the checkpoint before quantisation",
}

const quantisedHint = "use the checkpoint before quantisation, the base_model of its model card"

func quantisedAdvice(method string) string {
	if hint := quantisedHints[method]; hint != "" {
		return hint
	}
	return quantisedHint
}

// refuseQuantised refuses a config with quantization_config, or compression_config as it was called in the first compressed-tensors files.
func refuseQuantised(c *config) error {
	for _, key := range []string{"quantization_config", "compression_config"} {
		q := c.object(key)
		if q == nil {
			continue
		}
		method := q.text("quant_method", "")
		switch {
		case method == "" && (q.has("load_in_8bit") || q.has("load_in_4bit")): // as the first bitsandbytes files have it
			method = "bitsandbytes"
		case method == "" && key == "compression_config":
			method = "compressed-tensors"
		}
		if method == "" {
			c.refuse(key, "float weights", quantisedHint)
		} else {
			c.refuseValue(key+".quant_method", quoted(method), "float weights", quantisedAdvice(method))
		}
		return c.err
	}
	return nil
}

// quantisedTensors are ends of tensor names that belong to one method each, the more telling first.
var quantisedTensors = []struct{ end, method string }{
	{".quant_state.bitsandbytes__nf4", "bitsandbytes"}, {".quant_state.bitsandbytes__fp4", "bitsandbytes"}, {".weight.absmax", "bitsandbytes"},
	{".weight.quant_map", "bitsandbytes"}, {".weight_format", "bitsandbytes"}, {".SCB", "bitsandbytes"},
	{".g_idx", "gptq"},
	{".qweight", "awq"}, // GPTQ has it too, beside g_idx
	{".weight_packed", "compressed-tensors"}, {".weight_shape", "compressed-tensors"},
	{".weight_scale_inv", "fp8"},
	{".W_q", "hqq"},
	{"_weight_qdata", "torchao"},
	{"_proj_blocks", "mxfp4"},
	{".weight_scale", "fp8"},
}

// checkQuantised refuses a store with tensors of a quantisation, which then contradicts a config that names none.
func checkQuantised(store *safetensors.Store) error {
	found := map[string]string{} // method -> a tensor of it
	for _, name := range store.Names() {
		for _, q := range quantisedTensors {
			if strings.HasSuffix(name, q.end) {
				found[q.method] = name
				break
			}
		}
		if info, _ := store.Info(name); strings.HasPrefix(string(info.DType), "F8_") {
			found["fp8"] = name
		}
	}
	for _, q := range quantisedTensors { // in this order, so that the error is the same every time
		if name, ok := found[q.method]; ok {
			return &UnsupportedError{File: filepath.Base(store.Path(name)), Key: name, Got: "a tensor of a checkpoint quantised by " + q.method,
				Want: "float weights", hint: quantisedAdvice(q.method)}
		}
	}
	return nil
}
