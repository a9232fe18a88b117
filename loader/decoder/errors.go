package decoder

import "fmt"

// NotSupportedError says that a request is well formed, but that this version cannot carry it out.
type NotSupportedError struct{ What, Have string }

func (e *NotSupportedError) Error() string {
	return fmt.Sprintf("%s: not supported (have: %s)", e.What, e.Have)
}

// PluginError says that an XLA plugin could not be opened, and what to do.
type PluginError struct {
	Path   string
	Err    error
	Advice string
}

func (e *PluginError) Error() string {
	if e.Path == "" {
		return "xla plugin: " + e.Err.Error()
	}
	return "xla plugin " + e.Path + ": " + e.Err.Error()
}
func (e *PluginError) Unwrap() error { return e.Err }

// Hint says what the user can do about it.
func (e *PluginError) Hint() string { return e.Advice }

// OutOfMemoryError says that a unit of work did not fit.
type OutOfMemoryError struct{ Err error }

func (e *OutOfMemoryError) Error() string { return "out of memory: " + e.Err.Error() }
func (e *OutOfMemoryError) Unwrap() error { return e.Err }

// Hint says what the user can do about it.
func (e *OutOfMemoryError) Hint() string { return "lower --batch, or free memory on the device" }
