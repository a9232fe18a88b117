package builtin

import (
	"embed"
	"io/fs"
)

// Needle is the reference of the embedded model.
const Needle = "builtin:needle"

//go:embed needle
var files embed.FS

// Files returns the folder of an embedded checkpoint, in Hugging Face's layout; ok is false for an unknown reference.
func Files(ref string) (dir fs.FS, ok bool) {
	if ref != Needle {
		return nil, false
	}
	dir, err := fs.Sub(files, "needle")
	return dir, err == nil
}
