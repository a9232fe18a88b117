//go:build !goexperiment.simd

package decoder

const builtWithSIMD = false
