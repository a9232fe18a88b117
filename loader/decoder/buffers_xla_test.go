//go:build cgo && !noxla

package decoder

import "github.com/gomlx/go-xla/pjrt"

// liveBuffers counts the buffers on XLA's side; the Go backend's are on Go's heap.
func liveBuffers(be *Backend) int64 {
	if be.Kind == KindGo {
		return 0
	}
	return pjrt.BuffersAlive()
}
