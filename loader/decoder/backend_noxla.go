//go:build !cgo || noxla

package decoder

import "errors"

const haveXLA = false

func openXLA(kind Kind, path string, num int, tf32 bool) (*Backend, error) {
	return nil, &PluginError{
		Path: path, Err: errors.New("this binary was built without XLA (tag noxla, or cgo off)"),
		Advice: "use --device go, or build with cgo and without the tag noxla",
	}
}
