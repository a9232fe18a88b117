//go:build !cgo || noxla

package decoder

// liveBuffers has nothing to count: the Go backend's buffers are on Go's heap.
func liveBuffers(*Backend) int64 { return 0 }
