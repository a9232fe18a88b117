package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/edsrzf/mmap-go"
)

// File is one SafeTensors file whose header has passed every rule. Its methods may be called from several goroutines.
type File struct {
	*header
	path string
	r    io.ReaderAt

	mu     sync.RWMutex // guards what Close takes away
	mapped mmap.MMap    // the whole file, nil when it is read through r
	file   *os.File     // nil after Parse
	closed bool
}

// Parse checks the header of a file of size bytes behind r. Errors: [*HeaderError] for a file that breaks a rule, else what r returned.
// [File.Bytes] then reads from r.
func Parse(r io.ReaderAt, size int64) (*File, error) { return parse(r, size, "") }

func parse(r io.ReaderAt, size int64, path string) (*File, error) {
	h, err := readHeader(r, size)
	if err != nil {
		var bad *HeaderError
		if errors.As(err, &bad) {
			bad.File = path
			return nil, bad
		}
		if path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, err
	}
	return &File{header: h, path: path, r: r}, nil
}

// OpenFile opens and maps one file. Where the system refuses the mapping, tensors are read when they are asked for.
//
// The file must not shrink while it is open: the system kills a program that reads a mapped page that is gone.
func OpenFile(path string) (*File, error) {
	return openFile(path, func(f *os.File, size int) (mmap.MMap, error) {
		return mmap.MapRegion(f, size, mmap.RDONLY, 0, 0)
	})
}

func openFile(path string, mapFile func(f *os.File, size int) (mmap.MMap, error)) (*File, error) {
	// Stat first: opening a named pipe would wait for a writer.
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &OpenError{Path: path, Problem: "not a regular file"}
	}
	osFile, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if st, err = osFile.Stat(); err != nil {
		return nil, errors.Join(err, osFile.Close())
	}
	f, err := parse(osFile, st.Size(), path)
	if err != nil {
		return nil, errors.Join(err, osFile.Close())
	}
	f.file = osFile
	if st.Size() <= math.MaxInt {
		// A refused mapping changes speed and memory, no number, so it is not an error; Mapped tells.
		if m, err := mapFile(osFile, int(st.Size())); err == nil {
			f.mapped = m
		}
	}
	return f, nil
}

// Path returns the path the file was opened with, empty after [Parse].
func (f *File) Path() string { return f.path }

// Mapped says whether Bytes returns views of a memory map.
func (f *File) Mapped() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mapped != nil
}

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i := range f.tensors {
		names[i] = f.tensors[i].Name
	}
	return names
}

// Info returns what the header says of a tensor.
func (f *File) Info(name string) (Info, bool) {
	t, ok := f.find(name)
	if !ok {
		return Info{}, false
	}
	info := *t
	info.Shape = slices.Clone(t.Shape)
	return info, true
}

// Metadata returns the strings of __metadata__, empty where there are none.
func (f *File) Metadata() map[string]string {
	if f.metadata == nil {
		return map[string]string{}
	}
	return maps.Clone(f.metadata)
}

// Bytes returns a tensor's bytes, little-endian, row-major. For a mapped file they are a view: read-only (writing to it ends the program),
// and gone after Close. Otherwise they are a copy.
func (f *File) Bytes(name string) ([]byte, error) {
	t, ok := f.find(name)
	if !ok {
		return nil, f.missing(name)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return nil, fmt.Errorf("%s: %s: %w", f.label(), name, fs.ErrClosed)
	}
	begin, end := f.data+t.Begin, f.data+t.End
	if f.mapped != nil {
		return f.mapped[begin:end:end], nil
	}
	if end-begin > math.MaxInt {
		return nil, fmt.Errorf("%s: %s: %d bytes do not fit this machine's address space", f.label(), name, end-begin)
	}
	buf := make([]byte, end-begin)
	if _, err := io.ReadFull(io.NewSectionReader(f.r, begin, end-begin), buf); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.label(), name, err)
	}
	return buf, nil
}

// Release tells the system that a tensor's pages are not needed for now. Its views stay valid: touching them reads the
// file again. Without a map there is nothing to release.
func (f *File) Release(name string) error {
	t, ok := f.find(name)
	if !ok {
		return f.missing(name)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.mapped == nil || t.Begin == t.End {
		return nil
	}
	// Pages shared with a neighbour go too; a read-only map brings them back unchanged.
	page := int64(os.Getpagesize())
	begin := (f.data + t.Begin) / page * page
	if err := dontNeed(f.mapped[begin : f.data+t.End]); err != nil {
		return fmt.Errorf("%s: %s: release: %w", f.label(), name, err)
	}
	return nil
}

// Close unmaps and closes the file; views end with it. A second call does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var err error
	if f.mapped != nil {
		err = f.mapped.Unmap()
		f.mapped = nil
	}
	if f.file != nil {
		err = errors.Join(err, f.file.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: close: %w", f.label(), err)
	}
	return nil
}

func (f *File) label() string {
	if f.path == "" {
		return "safetensors"
	}
	return f.path
}

func (f *File) missing(name string) error {
	return fmt.Errorf("%s: %s: no such tensor: %w", f.label(), name, fs.ErrNotExist)
}
