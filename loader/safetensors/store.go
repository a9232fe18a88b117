package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The file names under which transformers saves a checkpoint.
const (
	singleFile  = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
	indexSuffix = ".safetensors.index.json"
)

// Store is a checkpoint's tensors, in one file or in the shards of an index. Its methods may be called from several goroutines.
type Store struct {
	path  string
	files []*File
	names []string         // sorted
	where map[string]*File // the file that holds a tensor
}

// Open opens a checkpoint: a folder with model.safetensors or, failing that, model.safetensors.index.json and its shards (the order in
// which transformers looks), or one such file by its path.
//
// Errors: [*OpenError] where there is nothing to read, [*HeaderError] and [*IndexError] for files that break a rule, else the system's.
func Open(dirOrFile string) (*Store, error) {
	st, err := os.Stat(dirOrFile)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return openPath(dirOrFile)
	}
	for _, name := range []string{singleFile, indexFile} {
		path := filepath.Join(dirOrFile, name)
		if _, err := os.Stat(path); err == nil {
			return openPath(path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, noCheckpoint(dirOrFile)
}

func openPath(path string) (*Store, error) {
	if strings.HasSuffix(path, indexSuffix) {
		return openIndexed(path)
	}
	if isPickle(path) {
		return nil, pickleError(path, "a PyTorch pickle, which can run code when it is loaded")
	}
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	return newStore(path, []*File{f}), nil
}

// OpenReader opens the one file of size bytes behind r; path is what it is called. Tensors are read when they are asked for. Errors are
// those of [Parse].
func OpenReader(path string, r io.ReaderAt, size int64) (*Store, error) {
	f, err := parse(r, size, path)
	if err != nil {
		return nil, err
	}
	return newStore(path, []*File{f}), nil
}

// newStore joins files whose tensors are known to have different names.
func newStore(path string, files []*File) *Store {
	s := &Store{path: path, files: files, where: map[string]*File{}}
	for _, f := range files {
		for i := range f.tensors {
			s.where[f.tensors[i].Name] = f
		}
	}
	s.names = slices.Sorted(maps.Keys(s.where))
	return s
}

func isPickle(path string) bool {
	switch filepath.Ext(path) {
	case ".bin", ".pt", ".pth", ".ckpt":
		return true
	}
	return strings.HasSuffix(path, ".bin.index.json")
}

func pickleError(path, problem string) error {
	return &OpenError{Path: path, Problem: problem, Hint: "save the model again with transformers: save_pretrained(DIR, safe_serialization=True)"}
}

// noCheckpoint says why a folder with neither of the two files cannot be opened.
func noCheckpoint(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var pickle, shard, gguf string
	for _, e := range entries {
		switch name := e.Name(); {
		case isPickle(name):
			pickle = name
		case strings.HasSuffix(name, ".safetensors"):
			shard = name
		case strings.HasSuffix(name, ".gguf"):
			gguf = name
		}
	}
	want := "neither " + singleFile + " nor " + indexFile
	switch {
	case shard != "":
		return &OpenError{Path: dir, Problem: want, Hint: fmt.Sprintf("it has %s: fetch the index that belongs to it, or name the file itself", shard)}
	case pickle != "":
		return pickleError(dir, want+", only PyTorch pickles such as "+pickle)
	case gguf != "":
		return &OpenError{Path: dir, Problem: want, Hint: "it has " + gguf + ": import that file"}
	}
	return &OpenError{Path: dir, Problem: want, Hint: "name the folder that save_pretrained wrote"}
}

// Names returns the names of all tensors, sorted.
func (s *Store) Names() []string { return slices.Clone(s.names) }

// Info returns what the header says of a tensor; Begin and End count in the data section of its own file.
func (s *Store) Info(name string) (Info, bool) {
	if f, ok := s.where[name]; ok {
		return f.Info(name)
	}
	return Info{}, false
}

// Path returns the path of the file that holds a tensor, empty for a name that the checkpoint does not have.
func (s *Store) Path(name string) string {
	if f, ok := s.where[name]; ok {
		return f.path
	}
	return ""
}

// Files returns the paths of the files, in the order of their names.
func (s *Store) Files() []string {
	paths := make([]string, len(s.files))
	for i, f := range s.files {
		paths[i] = f.path
	}
	return paths
}

// Bytes returns a tensor's bytes as [File.Bytes] does: for a mapped file a read-only view that Close ends.
func (s *Store) Bytes(name string) ([]byte, error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	return f.Bytes(name)
}

// Float32s decodes an F32, F16 or BF16 tensor exactly, into dst where its capacity suffices, else into a new slice; the result has one element per
// element of the tensor, row-major. Errors name another dtype.
func (s *Store) Float32s(name string, dst []float32) ([]float32, error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	t, _ := f.find(name)
	switch t.DType {
	case F32, F16, BF16:
	default:
		return nil, fmt.Errorf("%s: %s: got dtype %s, want F32, F16 or BF16", f.label(), name, t.DType)
	}
	src, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	n := t.Elements()
	if cap(dst) < n {
		dst = make([]float32, n)
	}
	dst = dst[:n]
	if err := DecodeFloat32(dst, src, t.DType); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.label(), name, err)
	}
	return dst, nil
}

// Release tells the system that a tensor's pages are not needed for now; see [File.Release].
func (s *Store) Release(name string) error {
	f, err := s.file(name)
	if err != nil {
		return err
	}
	return f.Release(name)
}

// Close closes all files; views end with it.
func (s *Store) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (s *Store) file(name string) (*File, error) {
	f, ok := s.where[name]
	if !ok {
		return nil, fmt.Errorf("%s: %s: no such tensor: %w", s.path, name, fs.ErrNotExist)
	}
	return f, nil
}
