package headlists

import "testing"

// BenchmarkMeasure is one layer of an 8B model: 4096 rows of 4096 weights, with an input norm.
func BenchmarkMeasure(b *testing.B) {
	w, g := make([]float32, 4096), make([]float64, 4096)
	for i := range w {
		w[i], g[i] = float32(i%97)/97-0.5, 1
	}
	b.SetBytes(4096 * 4096 * 2)
	for b.Loop() {
		for range 4096 {
			measure(w, g)
		}
	}
}
