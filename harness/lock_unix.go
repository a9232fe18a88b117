//go:build unix

package harness

import (
	"os"
	"syscall"
)

// lockFile takes the file for this process; the lock goes with the descriptor.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
