package loader

import (
	"fmt"
	"slices"
)

// The kinds of layers that layer_types and rope_parameters name.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// layerTypes reads layer_types: for each layer, whether it has the sliding window. It asks def where the key is absent.
func layerTypes(c *config, s *Spec, def func(layer int) bool) []bool {
	sliding := make([]bool, len(s.Kinds))
	var names []string
	if !c.value("layer_types", "a list of strings", &names) {
		for l := range sliding {
			sliding[l] = def(l)
		}
		return sliding
	}
	if len(names) != len(sliding) {
		c.want("layer_types", shown(c.keys["layer_types"]), fmt.Sprintf("one entry for each of the %d layers", s.Layers))
		return sliding
	}
	for l, name := range names {
		switch name {
		case fullAttention:
		case slidingAttention:
			sliding[l] = true
		default:
			c.refuse("layer_types", quoted(fullAttention)+" and "+quoted(slidingAttention), "")
		}
	}
	return sliding
}

// slide gives the sliding layers their window. A window of 0, that of a null in the config, is none; transformers fails on it.
func slide(c *config, s *Spec, sliding []bool, window int) {
	for l, yes := range sliding {
		switch {
		case yes && window == 0:
			c.want("sliding_window", "null", "a window for the layers that layer_types calls "+slidingAttention)
		case yes:
			s.Kinds[l].Window = window
		}
	}
}

// slideAll reads the window of a class in which all layers have it or none: Mistral, Phi-3.
func slideAll(c *config, s *Spec, def int) {
	window := c.nullableInteger("sliding_window", def)
	for l := range s.Kinds {
		s.Kinds[l].Window = window
	}
	sliding := layerTypes(c, s, func(int) bool { return window > 0 })
	if slices.Contains(sliding, window == 0) {
		c.refuse("layer_types", "the window in all layers, or sliding_window null and none: transformers' class knows no other", "")
	}
}

// slideFrom reads the window of the Qwen classes: layers from max_window_layers on have it, where use_sliding_window is true.
func slideFrom(c *config, s *Spec) {
	window, first := c.nullableInteger("sliding_window", 4096), c.index("max_window_layers", 28)
	if !c.boolean("use_sliding_window", false) {
		window = 0
	}
	slide(c, s, layerTypes(c, s, func(l int) bool { return window > 0 && l >= first }), window)
}

// noWindow refuses the window in a family whose class does not read it. Exporters write it all the same, at values that say nothing.
func noWindow(c *config, s *Spec) {
	window := c.nullableInteger("sliding_window", 0)
	used := !c.has("use_sliding_window") || c.boolean("use_sliding_window", true)
	if used && window != 0 && window < s.MaxPositions {
		c.refuse("sliding_window", "null: this family has no window", "")
	}
	if slices.Contains(layerTypes(c, s, func(int) bool { return false }), true) {
		c.refuse("layer_types", quoted(fullAttention)+" throughout", "")
	}
	c.ignore("max_window_layers")
}
