//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package safetensors

// dontNeed has no counterpart here: the system drops clean pages when it wants memory.
func dontNeed([]byte) error { return nil }
