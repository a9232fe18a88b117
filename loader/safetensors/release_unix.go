//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package safetensors

import "golang.org/x/sys/unix"

// dontNeed drops the pages of a part of a map that starts on a page.
func dontNeed(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }
