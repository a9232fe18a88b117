package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The files that Import writes.
const (
	configName          = "config.json"
	weightsName         = "model.safetensors"
	tokenizerName       = "tokenizer.json"
	tokenizerConfigName = "tokenizer_config.json"
)

func fileNames() []string {
	return []string{configName, weightsName, tokenizerName, tokenizerConfigName}
}

// stage is a folder under construction beside the place where it will stand. Nothing stands there until it is whole.
type stage struct {
	target string
	temp   string
}

// newStage checks that dir may be written and makes the temporary folder. A folder with content is replaced only on request, and
// only if there is nothing in it but what an earlier import wrote: the whole folder is swapped, so that no file of another
// checkpoint can stay between the new ones.
func newStage(dir string, overwrite bool) (*stage, error) {
	if dir == "" {
		return nil, errors.New("no folder to write to is given")
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := checkTarget(target, overwrite); err != nil {
		return nil, err
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(target)+".import-*.tmp")
	if err != nil {
		return nil, err
	}
	return &stage{target: target, temp: temp}, nil
}

func checkTarget(target string, overwrite bool) error {
	entries, err := os.ReadDir(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !overwrite {
			return fmt.Errorf("%s: %w: the folder is not empty and overwriting was not asked for", target, fs.ErrExist)
		}
		if e.IsDir() || !slices.Contains(fileNames(), e.Name()) {
			return fmt.Errorf("%s: %w: the folder holds %s, which no import writes; it is not overwritten", target, fs.ErrExist, e.Name())
		}
	}
	return nil
}

func (s *stage) path(name string) string { return filepath.Join(s.temp, name) }

// writeJSON writes one JSON file of the folder and syncs it.
func (s *stage) writeJSON(name string, v any, indent int) error {
	f, err := os.Create(s.path(name))
	if err != nil {
		return err
	}
	err = writeJSON(f, v, indent)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// commit puts the folder in its place. The check is made again, for what may have come there meanwhile.
func (s *stage) commit(overwrite bool) error {
	if err := checkTarget(s.target, overwrite); err != nil {
		return err
	}
	if err := syncFolder(s.temp); err != nil {
		return err
	}
	mode := fs.FileMode(0o755) // MkdirTemp's folders are private
	aside := s.temp + ".old"
	st, err := os.Lstat(s.target)
	switch {
	case err == nil:
		mode = st.Mode().Perm()
		if err := os.Rename(s.target, aside); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.Chmod(s.temp, mode); err != nil {
		return errors.Join(err, restore(aside, s.target))
	}
	if err := os.Rename(s.temp, s.target); err != nil {
		return errors.Join(err, restore(aside, s.target))
	}
	return os.RemoveAll(aside)
}

// syncFolder puts the folder's list of files on disk, so that a power cut after the rename cannot leave it without some.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// restore puts back what commit had moved aside, if anything.
func restore(aside, target string) error {
	if err := os.Rename(aside, target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// discard removes the temporary folder; after commit there is none left.
func (s *stage) discard() error { return os.RemoveAll(s.temp) }
