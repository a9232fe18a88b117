package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxHeader is the longest header that the format allows, in bytes.
const MaxHeader = 100_000_000

// prefix is the size of the header length in front of the header.
const prefix = 8

const metadataKey = "__metadata__"

const shortestEntry = len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}`)

// header is a header that has passed every rule.
type header struct {
	tensors  []Info // sorted by name
	byOffset []int  // indices into tensors, in data order
	metadata map[string]string
	data     int64 // where the data section begins in the file
}

// readHeader checks the header of a file of that size. The only memory it takes in proportion to a number in the file is the header's length, which is
// checked against the file and MaxHeader first.
func readHeader(r io.ReaderAt, size int64) (*header, error) {
	if size < prefix {
		return nil, broken(RuleHeaderTooSmall, "got %d bytes, want at least %d", size, prefix)
	}
	var raw [prefix]byte
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, prefix), raw[:]); err != nil {
		return nil, fmt.Errorf("header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(raw[:])
	if n > MaxHeader {
		return nil, broken(RuleHeaderTooLarge, "got %d bytes, want at most %d", n, MaxHeader)
	}
	if int64(n) > size-prefix {
		return nil, broken(RuleHeaderLength, "got %d bytes of header, want at most %d in a file of %d", n, size-prefix, size)
	}
	var b strings.Builder
	b.Grow(int(n))
	if got, err := io.Copy(&b, io.NewSectionReader(r, prefix, int64(n))); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	} else if got != int64(n) {
		return nil, fmt.Errorf("header: got %d bytes, want %d: %w", got, n, io.ErrUnexpectedEOF)
	}
	h := &header{data: prefix + int64(n)}
	if err := h.parse(b.String()); err != nil {
		return nil, err
	}
	if err := h.check(size - h.data); err != nil {
		return nil, err
	}
	return h, nil
}

// parse reads the JSON. It returns a nil error interface on success.
func (h *header) parse(text string) error {
	if !utf8.ValidString(text) {
		return broken(RuleUTF8, "")
	}
	if !strings.HasPrefix(text, "{") {
		return broken(RuleHeaderStart, "got %.8q", text)
	}
	// Room for all tensors at once; shortestEntry keeps a header full of the word from claiming more than real entries would.
	h.tensors = make([]Info, 0, min(strings.Count(text, `"dtype"`), len(text)/shortestEntry+1))
	s := &scanner{s: text}
	err := s.object(func(key string) *HeaderError {
		if key == metadataKey {
			return h.readMetadata(s)
		}
		info, err := readTensor(s)
		if err != nil {
			err.Detail = fmt.Sprintf("tensor %.80q: %s", key, err.Detail)
			return err
		}
		info.Name = key
		h.tensors = append(h.tensors, info)
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return err
	}
	slices.SortFunc(h.tensors, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(h.tensors); i++ {
		if h.tensors[i].Name == h.tensors[i-1].Name {
			return broken(RuleDuplicateKey, "tensor %.80q", h.tensors[i].Name)
		}
	}
	return nil
}

func (h *header) readMetadata(s *scanner) *HeaderError {
	if h.metadata != nil {
		return broken(RuleDuplicateKey, "%q", metadataKey)
	}
	h.metadata = map[string]string{}
	if s.peek() != '{' {
		return broken(RuleMetadata, "got %s, want an object", s.found())
	}
	return s.object(func(key string) *HeaderError {
		if _, ok := h.metadata[key]; ok {
			return broken(RuleDuplicateKey, "%s: %.80q", metadataKey, key)
		}
		if s.peek() != '"' {
			return broken(RuleMetadata, "%.80q: got %s, want a string", key, s.found())
		}
		value, err := s.str()
		if err == nil {
			h.metadata[key] = value
		}
		return err
	})
}

// readTensor reads one tensor's object, all but its name.
func readTensor(s *scanner) (Info, *HeaderError) {
	var info Info
	var hasType, hasShape, hasOffsets bool
	once := func(seen *bool, key string) *HeaderError {
		if *seen {
			return broken(RuleDuplicateKey, "%q", key)
		}
		*seen = true
		return nil
	}
	if s.peek() != '{' {
		return info, broken(RuleTensorField, "got %s, want an object", s.found())
	}
	err := s.object(func(key string) (err *HeaderError) {
		switch key {
		case "dtype":
			if err = once(&hasType, key); err == nil {
				info.DType, err = readDType(s)
			}
		case "shape":
			if err = once(&hasShape, key); err == nil {
				info.Shape, err = readShape(s)
			}
		case "data_offsets":
			if err = once(&hasOffsets, key); err == nil {
				info.Begin, info.End, err = readOffsets(s)
			}
		default:
			return broken(RuleTensorField, "unknown key %.80q", key)
		}
		return err
	})
	if err == nil && !(hasType && hasShape && hasOffsets) {
		err = broken(RuleTensorField, "want dtype, shape and data_offsets")
	}
	return info, err
}

func readDType(s *scanner) (DType, *HeaderError) {
	if s.peek() != '"' {
		return "", broken(RuleDType, "got %s, want a string", s.found())
	}
	name, err := s.str()
	if err != nil {
		return "", err
	}
	if DType(name).Bits() == 0 {
		return "", broken(RuleDType, "got dtype %.40q, want one of the format's", name)
	}
	return DType(name), nil
}

func readShape(s *scanner) ([]int, *HeaderError) {
	if s.peek() != '[' {
		return nil, broken(RuleShape, "got %s, want an array", s.found())
	}
	// Counted ahead, so that a shape of a million dimensions is allocated once.
	rest := s.s[s.pos:]
	commas := strings.Count(rest[:strings.IndexByte(rest, ']')+1], ",")
	shape := make([]int, 0, commas+1)
	err := s.array(func() *HeaderError {
		n, err := s.count(RuleShape)
		if err == nil && n > math.MaxInt {
			err = broken(RuleOverflow, "dimension %d does not fit an int", n)
		}
		shape = append(shape, int(n))
		return err
	})
	return shape, err
}

func readOffsets(s *scanner) (begin, end int64, err *HeaderError) {
	if s.peek() != '[' {
		return 0, 0, broken(RuleDataOffsets, "got %s, want an array", s.found())
	}
	var at [2]int64
	i := 0
	err = s.array(func() *HeaderError {
		n, err := s.count(RuleDataOffsets)
		if err == nil && i == len(at) {
			err = broken(RuleDataOffsets, "got more than two numbers")
		}
		if err == nil {
			at[i] = n
			i++
		}
		return err
	})
	if err == nil && i != len(at) {
		err = broken(RuleDataOffsets, "got %d numbers, want two", i)
	}
	return at[0], at[1], err
}

// check holds the tensors against each other and against the data section's length.
func (h *header) check(data int64) error {
	h.byOffset = make([]int, len(h.tensors))
	for i := range h.byOffset {
		h.byOffset[i] = i
	}
	slices.SortFunc(h.byOffset, func(i, j int) int {
		a, b := &h.tensors[i], &h.tensors[j]
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(i, j))
	})
	var end int64
	for _, i := range h.byOffset {
		t := &h.tensors[i]
		if t.Begin != end || t.End < t.Begin {
			return broken(RuleNotContiguous, "tensor %.80q: got bytes %d to %d, want a start at %d", t.Name, t.Begin, t.End, end)
		}
		want, err := byteSize(t.DType, t.Shape)
		if err != nil {
			err.Detail = fmt.Sprintf("tensor %.80q: %s", t.Name, err.Detail)
			return err
		}
		if got := t.End - t.Begin; got != want {
			return broken(RuleTensorSize, "tensor %.80q: got %d bytes, want %d for %s of rank %d", t.Name, got, want, t.DType, len(t.Shape))
		}
		end = t.End
	}
	if end != data {
		return broken(RuleUncoveredBuffer, "got %d bytes after the header, want %d", data, end)
	}
	return nil
}

func (h *header) find(name string) (*Info, bool) {
	i, ok := slices.BinarySearchFunc(h.tensors, name, func(t Info, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &h.tensors[i], true
}
