package npz

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is one array, or a file that stands beside the arrays.
type Entry struct {
	Name  string // of the array, without .npy; of a file, its whole name
	Shape []int  // empty: a scalar; of a file, nil
	Data  any    // []float32, []float64, []int32 or []int64, row-major; []byte is a file
}

// Write writes an archive of the entries in the order given. Errors name the entry.
func Write(w io.Writer, entries []Entry) error {
	if err := check(entries); err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, e := range entries {
		if err := e.write(z); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return z.Close()
}

// WriteFile writes an archive as Write does, and takes the name path only when every byte is on disk. On any error nothing is left
// behind and a file that was there before is untouched.
func WriteFile(path string, entries []Entry) (err error) {
	if err := check(entries); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out, err := createTemp(path)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			out.Close()
			os.Remove(out.Name())
		}
	}()
	buf := bufio.NewWriterSize(out, 1<<20)
	for _, step := range []func() error{
		func() error { return Write(buf, entries) }, buf.Flush, out.Sync, out.Close,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := os.Rename(out.Name(), path); err != nil {
		return err
	}
	renamed = true
	return nil
}

// createTemp makes a new, hidden file beside path.
func createTemp(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for try := 0; ; try++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", base, os.Getpid(), try))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == 1000 {
			return f, err
		}
	}
}

// member is the entry's name in the archive.
func (e *Entry) member() string {
	if _, ok := e.Data.([]byte); ok {
		return e.Name
	}
	return e.Name + ".npy"
}

func check(entries []Entry) error {
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if seen[e.member()] {
			return fmt.Errorf("%s: two entries of that name", e.Name)
		}
		seen[e.member()] = true
	}
	return nil
}

func (e *Entry) check() error {
	if !utf8.ValidString(e.Name) || !fs.ValidPath(e.Name) || e.Name == "." || strings.ContainsAny(e.Name, "\\\x00") {
		return fmt.Errorf("name %q, want a relative path with slashes", e.Name)
	}
	var n int
	switch d := e.Data.(type) {
	case []byte:
		if strings.HasSuffix(e.Name, ".npy") || e.Shape != nil {
			return errors.New("bytes are no array: want a name without .npy and no shape")
		}
		return nil
	case []float32:
		n = len(d)
	case []float64:
		n = len(d)
	case []int32:
		n = len(d)
	case []int64:
		n = len(d)
	default:
		return fmt.Errorf("got %T, want []float32, []float64, []int32, []int64 or []byte", e.Data)
	}
	if strings.HasSuffix(e.Name, ".npy") {
		return errors.New("the suffix .npy is added")
	}
	want := 1
	for _, dim := range e.Shape {
		if dim < 0 || dim > 0 && want > math.MaxInt/dim {
			return fmt.Errorf("shape %v", e.Shape)
		}
		want *= dim
	}
	if n != want {
		return fmt.Errorf("got %d elements, want %d for the shape %v", n, want, e.Shape)
	}
	return nil
}

func (e *Entry) write(z *zip.Writer) error {
	// The first date that an archive can tell, and the one that numpy.savez writes.
	date := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	w, err := z.CreateHeader(&zip.FileHeader{Name: e.member(), Method: zip.Store, Modified: date})
	if err != nil {
		return err
	}
	if b, ok := e.Data.([]byte); ok {
		_, err := w.Write(b)
		return err
	}
	switch d := e.Data.(type) {
	case []float32:
		return writeArray(w, header("<f4", e.Shape), d, func(b []byte, v float32) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		})
	case []float64:
		return writeArray(w, header("<f8", e.Shape), d, func(b []byte, v float64) []byte {
			return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		})
	case []int32:
		return writeArray(w, header("<i4", e.Shape), d, func(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) })
	case []int64:
		return writeArray(w, header("<i8", e.Shape), d, func(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) })
	}
	return fmt.Errorf("got %T", e.Data) // check has refused it
}

// writeArray writes the header and the elements, a piece at a time.
func writeArray[T any](w io.Writer, head []byte, data []T, put func([]byte, T) []byte) error {
	const piece = 8192
	b := append(make([]byte, 0, len(head)+8*piece), head...)
	for {
		n := min(piece, len(data))
		for _, v := range data[:n] {
			b = put(b, v)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
		b = b[:0]
	}
}

// header is the part of a .npy file before its elements, padded so that they begin at a multiple of 64 bytes.
func header(descr string, shape []int) []byte {
	dims := make([]string, len(shape))
	for i, n := range shape {
		dims[i] = strconv.Itoa(n)
	}
	tuple := strings.Join(dims, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const prefix = 10
	length := (prefix+len(dict)+1+63)/64*64 - prefix
	b := append([]byte("\x93NUMPY\x01\x00"), byte(length), byte(length>>8))
	b = append(b, dict...)
	for len(b) < prefix+length-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}
