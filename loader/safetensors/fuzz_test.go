package safetensors

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// entriesOf returns the tensors of a parsed file in data order.
func entriesOf(t testing.TB, f *File) []Entry {
	t.Helper()
	var entries []Entry
	for _, i := range f.byOffset {
		info := f.tensors[i]
		data, err := f.Bytes(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{info.Name, info.DType, info.Shape, Bytes(data)})
	}
	return entries
}

// sameContents compares all that a file says, offsets included.
func sameContents(t testing.TB, a, b *File) {
	t.Helper()
	if !slices.Equal(a.Names(), b.Names()) || !maps.Equal(a.Metadata(), b.Metadata()) {
		t.Fatalf("got %q %q, want %q %q", b.Names(), b.Metadata(), a.Names(), a.Metadata())
	}
	for _, name := range a.Names() {
		x, _ := a.Info(name)
		y, _ := b.Info(name)
		p, errA := a.Bytes(name)
		q, errB := b.Bytes(name)
		if errA != nil || errB != nil || !reflect.DeepEqual(x, y) || !bytes.Equal(p, q) {
			t.Fatalf("%q: got %v %v, want %v %v", name, y, errB, x, errA)
		}
	}
}

// FuzzParse holds the law: nothing panics; what is refused is refused by a rule; what parses, written again, parses to the same tensors.
func FuzzParse(f *testing.F) {
	for _, c := range append(headerCases(), legalCases()...) {
		if len(c.file) < 1<<16 {
			f.Add(c.file)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := parseBytes(raw)
		if err != nil {
			var bad *HeaderError
			if !errors.As(err, &bad) {
				t.Fatalf("got error %v of type %T, want a *HeaderError", err, err)
			}
			return
		}
		checkCovered(t, first, len(raw))
		var b bytes.Buffer
		if err := Write(&b, entriesOf(t, first), first.Metadata()); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		second, err := parseBytes(b.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if second.data%8 != 0 {
			t.Fatalf("data begins at byte %d, want a multiple of 8", second.data)
		}
		sameContents(t, first, second)
	})
}
