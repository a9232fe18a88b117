package loader

import (
	"cmp"
	"fmt"
)

// gemma2 reads Gemma2ForCausalLM: soft caps, and a window in every second layer.
func gemma2(c *config) Spec {
	s := class{
		modelType: "gemma2", maxPositions: 8192, kvHeads: 4, headDim: 256, epsKey: "rms_norm_eps", eps: 1e-6,
		actKey: "hidden_activation", act: "gelu_pytorch_tanh", tied: true, eos: []int32{1}, bos: []int32{2},
	}.read(c)
	o := gemmaSandwich(c, &s, 50, 30)
	window := c.nullableInteger("sliding_window", 4096)
	if old := cmp.Or(c.integer("sliding_window_size", 0), window); old != window {
		c.want("sliding_window_size", fmt.Sprint(old), fmt.Sprintf("the %d of sliding_window, or none", window))
	}
	slide(c, &s, layerTypes(c, &s, func(l int) bool { return l%2 == 0 }), window)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	s.Params = o.params(s)
	return s
}
