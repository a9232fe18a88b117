package loader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

func TestQuantisedConfigs(t *testing.T) {
	for name, tc := range map[string]struct {
		block          object
		contains, hint string
	}{
		"bitsandbytes, new": {object{"quantization_config": object{"quant_method": "bitsandbytes", "load_in_4bit": true}}, `quantization_config.quant_method: got "bitsandbytes"`, "dequantize()"},
		"bitsandbytes, old": {object{"quantization_config": object{"load_in_8bit": true}}, `"bitsandbytes"`, "dequantize()"},
		"gptq":              {object{"quantization_config": object{"quant_method": "gptq", "bits": 4}}, `"gptq"`, "base_model"},
		"awq":               {object{"quantization_config": object{"quant_method": "awq", "bits": 4}}, `"awq"`, "base_model"},
		"fp8":               {object{"quantization_config": object{"quant_method": "fp8", "weight_block_size": []int{128, 128}}}, `"fp8"`, "FineGrainedFP8Config"},
		"compressed":        {object{"quantization_config": object{"quant_method": "compressed-tensors"}}, `"compressed-tensors"`, "run_compressed"},
		"compressed, old":   {object{"compression_config": object{"format": "pack-quantized"}}, `"compressed-tensors"`, "run_compressed"},
		"torchao":           {object{"quantization_config": object{"quant_method": "torchao"}}, `"torchao"`, "base_model"},
		"hqq":               {object{"quantization_config": object{"quant_method": "hqq"}}, `"hqq"`, "base_model"},
		"mxfp4":             {object{"quantization_config": object{"quant_method": "mxfp4"}}, `"mxfp4"`, "Mxfp4Config"},
		"something new":     {object{"quantization_config": object{"quant_method": "int3"}}, `"int3"`, "before quantisation"},
	} {
		_, err := loader.ParseConfig(base(tc.block), nil)
		var e *loader.UnsupportedError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.contains) || !strings.Contains(e.Hint(), tc.hint) {
			t.Errorf("%s: got %v, want unsupported with %q and a hint with %q", name, err, tc.contains, tc.hint)
		}
	}
}

// The tensors of layer 0's query projection as each method stores them, under a config that says nothing of it.
func TestQuantisedTensors(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj"
	for method, stored := range map[string][]safetensors.Entry{
		"bitsandbytes": {zeros(q+".weight", safetensors.U8, 1024, 1), zeros(q+".weight.absmax", safetensors.U8, 32), zeros(q+".weight.quant_map", safetensors.F32, 16),
			zeros(q+".weight.quant_state.bitsandbytes__nf4", safetensors.U8, 80)},
		"gptq":               {zeros(q+".qweight", safetensors.I32, 4, 64), zeros(q+".qzeros", safetensors.I32, 1, 8), zeros(q+".scales", safetensors.F16, 1, 64), zeros(q+".g_idx", safetensors.I32, 32)},
		"awq":                {zeros(q+".qweight", safetensors.I32, 32, 8), zeros(q+".qzeros", safetensors.I32, 1, 8), zeros(q+".scales", safetensors.F16, 1, 64)},
		"fp8":                {zeros(q+".weight", safetensors.F8E4M3, 64, 32), zeros(q+".weight_scale_inv", safetensors.F32, 1, 1)},
		"compressed-tensors": {zeros(q+".weight_packed", safetensors.I32, 64, 4), zeros(q+".weight_scale", safetensors.BF16, 64, 1), zeros(q+".weight_shape", safetensors.I64, 2)},
		"hqq":                {zeros(q+".W_q", safetensors.U8, 32, 32), zeros(q+".scale", safetensors.F16, 32, 1), zeros(q+".zero", safetensors.F16, 32, 1)},
		"torchao":            {zeros(q+"._weight_qdata", safetensors.I8, 64, 32), zeros(q+"._weight_scale", safetensors.F32, 64)},
		"mxfp4":              {zeros(q+"_blocks", safetensors.U8, 64, 1, 16), zeros(q+"_scales", safetensors.U8, 64, 1)},
	} {
		edit := func(e []safetensors.Entry) []safetensors.Entry { return append(without(q+".weight")(e), stored...) }
		_, err := loader.Open(folder(t, loadertest.Options{}, edit))
		var e *loader.UnsupportedError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "got a tensor of a checkpoint quantised by "+method) || e.Hint() == "" {
			t.Errorf("%s: got %v, want unsupported, naming it", method, err)
		}
	}
	eight := func(e []safetensors.Entry) []safetensors.Entry { // bitsandbytes' 8 bits keep the name of the weight
		return append(without(q+".weight")(e), zeros(q+".weight", safetensors.I8, 64, 32), zeros(q+".SCB", safetensors.F32, 64))
	}
	if _, err := loader.Open(folder(t, loadertest.Options{}, eight)); err == nil || !strings.Contains(err.Error(), "bitsandbytes") {
		t.Errorf("8 bits: got %v, want bitsandbytes named", err)
	}
}

func TestReach(t *testing.T) {
	c := mustOpen(t, "testdata/parity/gemma2") // windows of 8 in layers 0 and 2
	for layer, want := range []bool{false, true, false} {
		if !c.Spec.Reaches(layer, 7) || c.Spec.Reaches(layer, 8) != want || c.Spec.Reaches(layer, 5000) != want {
			t.Errorf("gemma2: layer %d: got %v at distance 8, want %v; and true at 7", layer, c.Spec.Reaches(layer, 8), want)
		}
	}
	c = mustOpen(t, "testdata/parity/smollm3")
	for layer, want := range []bool{false, false, false, true} {
		if c.Spec.Unrotated(layer) != want {
			t.Errorf("smollm3: layer %d: got unrotated %v, want %v", layer, !want, want)
		}
	}
}
