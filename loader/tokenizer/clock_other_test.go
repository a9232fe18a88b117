//go:build !linux

package tokenizer

import "time"

// timed returns the time that f takes.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
