package gguf

import "fmt"

// UnsupportedError says that a file is sound but holds something that this package cannot convert exactly: a storage format, an
// architecture, a key, a tensor, a tokenizer. It names it.
type UnsupportedError struct {
	Detail string
}

func (e *UnsupportedError) Error() string { return e.Detail }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{Detail: fmt.Sprintf(format, args...)}
}
