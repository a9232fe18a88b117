package safetensors

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Entry is a tensor to be written.
type Entry struct {
	Name  string
	DType DType
	Shape []int
	// Write puts the tensor's bytes, little-endian and row-major, into w: exactly as many as dtype and shape need.
	Write func(w io.Writer) error
}

// Bytes returns a Write function for data already in memory.
func Bytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// WriteFile writes the tensors in the order given, that order being their order in the data section, and takes the name path only when every
// byte is on disk. On any error nothing is left behind and a file that was there before is untouched. A metadata of length 0 is not written.
func WriteFile(path string, entries []Entry, metadata map[string]string) error {
	return writeFile(path, entries, metadata, func(name string) (output, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	})
}

// output is what writeFile needs of a file.
type output interface {
	io.Writer
	Sync() error
	Close() error
}

func writeFile(path string, entries []Entry, metadata map[string]string, create func(name string) (output, error)) (err error) {
	head, sizes, err := encodeHeader(entries, metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out, temp, err := createTemp(path, create)
	if err != nil {
		return err
	}
	renamed := false
	defer func() { // also when an entry's Write panics
		if !renamed {
			out.Close()
			os.Remove(temp)
		}
	}()
	if err := writeAll(out, head, entries, sizes); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	renamed = true
	return nil
}

// createTemp makes a new file beside path. Its name is hidden and ends in .tmp, so that no reader takes it for a checkpoint.
func createTemp(path string, create func(name string) (output, error)) (output, string, error) {
	dir, base := filepath.Split(path)
	for try := 0; ; try++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", base, os.Getpid(), try))
		out, err := create(name)
		if err == nil {
			return out, name, nil
		}
		if !errors.Is(err, fs.ErrExist) || try == 10_000 {
			return nil, "", err
		}
	}
}

// Write writes a whole file to w, as [WriteFile] does to a path.
func Write(w io.Writer, entries []Entry, metadata map[string]string) error {
	head, sizes, err := encodeHeader(entries, metadata)
	if err != nil {
		return err
	}
	return writeAll(w, head, entries, sizes)
}

func writeAll(w io.Writer, head []byte, entries []Entry, sizes []int64) error {
	buf := bufio.NewWriterSize(w, 1<<20)
	if _, err := buf.Write(head); err != nil {
		return err
	}
	for i, e := range entries {
		exact := &exactWriter{w: buf, left: sizes[i]}
		if err := e.Write(exact); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		// The failure is kept, for a Write that drops its writer's errors.
		if exact.err != nil {
			return fmt.Errorf("%s: %w", e.Name, exact.err)
		}
		if exact.left != 0 {
			return fmt.Errorf("%s: got %d bytes, want %d: %w", e.Name, sizes[i]-exact.left, sizes[i], io.ErrUnexpectedEOF)
		}
	}
	return buf.Flush()
}

// exactWriter refuses the byte after the last one wanted.
type exactWriter struct {
	w    io.Writer
	left int64
	err  error
}

func (x *exactWriter) Write(p []byte) (int, error) {
	if x.err != nil {
		return 0, x.err
	}
	if int64(len(p)) > x.left {
		x.err = fmt.Errorf("got %d bytes or more beyond the tensor's size", int64(len(p))-x.left)
		return 0, x.err
	}
	n, err := x.w.Write(p)
	x.left -= int64(n)
	x.err = err
	return n, err
}

// encodeHeader returns the length prefix and the padded header, and each entry's size in bytes.
func encodeHeader(entries []Entry, metadata map[string]string) ([]byte, []int64, error) {
	var b bytes.Buffer
	b.Write(make([]byte, prefix))
	b.WriteByte('{')
	if len(metadata) > 0 {
		if err := encodeMetadata(&b, metadata); err != nil {
			return nil, nil, err
		}
	}
	seen := make(map[string]bool, len(entries))
	sizes := make([]int64, len(entries))
	var end int64
	for i, e := range entries {
		size, err := checkEntry(e, seen)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		if end+size < end {
			return nil, nil, fmt.Errorf("%s: %w", e.Name, broken(RuleOverflow, "the data section does not fit 63 bits"))
		}
		if b.Len() > prefix+1 {
			b.WriteByte(',')
		}
		quote(&b, e.Name)
		b.WriteString(`:{"dtype":`)
		quote(&b, string(e.DType))
		b.WriteString(`,"shape":[`)
		for j, dim := range e.Shape {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(dim))
		}
		fmt.Fprintf(&b, `],"data_offsets":[%d,%d]}`, end, end+size)
		sizes[i], end = size, end+size
	}
	b.WriteByte('}')
	// Data that starts on a multiple of 8 lets readers view the first tensors in place.
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - prefix
	if n > MaxHeader {
		return nil, nil, broken(RuleHeaderTooLarge, "got %d bytes, want at most %d", n, MaxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(n))
	return b.Bytes(), sizes, nil
}

func encodeMetadata(b *bytes.Buffer, metadata map[string]string) error {
	quote(b, metadataKey)
	b.WriteString(":{")
	for i, key := range slices.Sorted(maps.Keys(metadata)) {
		if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
			return broken(RuleUTF8, "%s: %q", metadataKey, key)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		quote(b, key)
		b.WriteByte(':')
		quote(b, metadata[key])
	}
	b.WriteByte('}')
	return nil
}

func checkEntry(e Entry, seen map[string]bool) (int64, error) {
	switch {
	case e.Name == metadataKey:
		return 0, broken(RuleTensorField, "the name is reserved")
	case !utf8.ValidString(e.Name):
		return 0, broken(RuleUTF8, "tensor name %q", e.Name)
	case seen[e.Name]:
		return 0, broken(RuleDuplicateKey, "two tensors of that name")
	case e.Write == nil:
		return 0, broken(RuleTensorField, "no Write function")
	}
	seen[e.Name] = true
	size, err := byteSize(e.DType, e.Shape)
	if err != nil {
		return 0, err
	}
	return size, nil
}

// quote writes s as a JSON string; s is valid UTF-8.
func quote(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	// Encoding a string into a buffer has no way to fail; the line feed that Encode adds is dropped.
	_ = enc.Encode(s)
	b.Truncate(b.Len() - 1)
}
