package loader

// olmo3 reads Olmo3ForCausalLM: OLMo-2 with a window in three layers of four. rope_theta and rope_scaling at the root reach the full
// layers alone, as in transformers.
func olmo3(c *config) Spec {
	s := olmoPostNorm(c, "olmo3")
	sliding := layerTypes(c, &s, func(l int) bool { return (l+1)%4 != 0 })
	slide(c, &s, sliding, c.nullableInteger("sliding_window", 4096))
	plain := ropeDefaults{theta: 500000}
	ropeByLayer(c, &s, sliding, layerRope{full: plain, local: plain})
	return s
}
