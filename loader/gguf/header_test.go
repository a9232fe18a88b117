package gguf

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func openBytes(raw []byte) (*File, error) {
	return NewFile("test.gguf", bytes.NewReader(raw), int64(len(raw)))
}

// TestMetadata reads back a value of every type.
func TestMetadata(t *testing.T) {
	long := strings.Repeat("é", 50_000) // longer than the cursor's window
	b := newBuilder().set("u8", uint8(200)).set("i8", int8(-5)).set("u16", uint16(60000)).set("i16", int16(-300)).
		set("u32", uint32(4e9)).set("i32", int32(-7)).set("u64", uint64(1)<<40).set("i64", int64(-1)<<40).
		set("huge", uint64(math.MaxUint64)).set("f32", float32(1e-5)).set("f64", 0.1).set("yes", true).set("text", "a\x00b").
		set("long", long).set("texts", []string{"", "Ġa", long}).set("ints", []int32{3, -1}).set("nested", [][]int32{{1, 2}, {}}).
		set("bad text", "\xff").set("bad texts", []string{"ok", "\xff"})
	b.version = 2
	f := b.open(t)
	for key, want := range map[string]int64{"u8": 200, "i8": -5, "u16": 60000, "i16": -300, "u32": 4e9, "i32": -7, "u64": 1 << 40,
		"i64": -1 << 40} {
		if got, err := f.Metadata()[key].Int(); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", key, got, err, want)
		}
	}
	value := func(key string) Value { v, _ := f.Value(key); return v }
	if got, err := value("f32").Decimal(); err != nil || got != 1e-5 {
		t.Errorf("float32 1e-5: got %v, %v, want the decimal 1e-05", got, err)
	}
	if got, err := value("f64").Decimal(); err != nil || got != 0.1 {
		t.Errorf("float64: got %v, %v", got, err)
	}
	if got, err := value("yes").Bool(); err != nil || !got {
		t.Errorf("bool: got %v, %v", got, err)
	}
	if got, err := value("long").Text(); err != nil || got != long {
		t.Errorf("long string: %d bytes, %v", len(got), err)
	}
	if got, err := value("texts").Texts(); err != nil || !slices.Equal(got, []string{"", "Ġa", long}) {
		t.Errorf("texts: %v", err)
	}
	if got, err := value("ints").Ints(); err != nil || !slices.Equal(got, []int64{3, -1}) {
		t.Errorf("ints: got %v, %v", got, err)
	}
	if v := value("nested"); v.N != 2 || v.Elem != Array || v.String() != "array of 2 array" {
		t.Errorf("nested: %v", v)
	}
	_, huge := value("huge").Int()
	_, notInt := value("f32").Int()
	_, notText := value("u8").Text()
	_, badText := value("bad text").Text()
	_, badTexts := value("bad texts").Texts()
	_, textsAsInts := value("texts").Ints()
	_, intsAsTexts := value("ints").Texts()
	_, scalarAsInts := value("u8").Ints()
	for i, err := range []error{huge, notInt, notText, badText, badTexts, textsAsInts, intsAsTexts, scalarAsInts} {
		if err == nil {
			t.Errorf("wrong use %d: no error", i)
		}
	}
	if len(f.Keys()) != 19 || f.Keys()[0] != "u8" || f.Version != 2 {
		t.Errorf("keys %v, version %d", f.Keys(), f.Version)
	}
}

// broken is a file that breaks one rule, and words that the error must have.
type broken struct {
	name, want string
	raw        []byte
}

func checkBroken(t *testing.T, tests []broken) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := openBytes(test.raw)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "test.gguf: ") {
				t.Errorf("got error %v, want one with %q that begins with the file's name", err, test.want)
			}
		})
	}
}

// twoTensors is the sound file that the rules' tests break.
func twoTensors() *builder {
	return newBuilder().add("a", F32, []int{2, 4}, make([]byte, 32)).add("b", F32, []int{8}, make([]byte, 32))
}

// nested returns an array within that many arrays.
func nested(depth int) []byte {
	out := slices.Concat(le(uint32(Uint8)), le(uint64(1)), []byte{7})
	for range depth {
		out = slices.Concat(le(uint32(Array)), le(uint64(1)), out)
	}
	return out
}

func TestSoundFiles(t *testing.T) {
	if _, err := openBytes(twoTensors().bytes()); err != nil {
		t.Errorf("two tensors: %v", err)
	}
	if _, err := openBytes(twoTensors().raw("k", Array, nested(3)).bytes()); err != nil {
		t.Errorf("arrays as deep as allowed: %v", err)
	}
	if _, err := openBytes(newBuilder().bytes()); err != nil {
		t.Errorf("nothing but a header: %v", err)
	}
}

func TestMetadataRules(t *testing.T) {
	patch := func(raw []byte, offset int, with ...byte) []byte { copy(raw[offset:], with); return raw }
	max8 := bytes.Repeat([]byte{0xff}, 8)
	version := func(v uint32) []byte { b := twoTensors(); b.version = v; return b.bytes() }
	text := func(n uint64, s string) []byte { return append(le(n), s...) }
	list := func(elem uint32, n uint64, body ...byte) []byte { return slices.Concat(le(elem), le(n), body) }
	checkBroken(t, []broken{
		{"empty", "unexpected EOF", nil},
		{"magic", "not a GGUF file", patch(twoTensors().bytes(), 0, 'G', 'G', 'M', 'L')},
		{"version 1", "version 1, want 2 or 3", version(1)},
		{"version 4", "version 4, want 2 or 3", version(4)},
		{"big-endian", "big-endian", version(3 << 24)},
		{"tensor count", "18446744073709551615 tensors", patch(twoTensors().bytes(), 8, max8...)},
		{"pair count", "18446744073709551615 metadata pairs", patch(twoTensors().bytes(), 16, max8...)},
		{"key length", "string of 18446744073709551615 bytes", patch(newBuilder().set("k", uint8(1)).bytes(), 24, max8...)},
		{"empty key", "want UTF-8", newBuilder().set("", uint8(1)).bytes()},
		{"key not UTF-8", "want UTF-8", newBuilder().set("\xff", uint8(1)).bytes()},
		{"key twice", "k: key is there twice", func() []byte {
			b := newBuilder().set("k", uint8(1))
			b.pairs = append(b.pairs, b.pairs[0])
			return b.bytes()
		}()},
		{"value type", "k: unknown value type 13", newBuilder().raw("k", 13, make([]byte, 40)).bytes()},
		{"bool", "bool is 2", newBuilder().raw("k", Bool, []byte{2}).bytes()},
		{"string length", "string of 4000 bytes", newBuilder().raw("k", String, text(4000, "abc")).bytes()},
		{"array type", "array of unknown value type 99", newBuilder().raw("k", Array, list(99, 1, 0, 0, 0)).bytes()},
		{"array count", "array of 1152921504606846976 uint8", newBuilder().raw("k", Array, list(0, 1<<60, 1, 2)).bytes()},
		{"array count times size overflows", "array of 2305843009213693953 uint64",
			newBuilder().raw("k", Array, list(uint32(Uint64), 1<<61+1, 1, 2, 3, 4, 5, 6, 7, 8)).bytes()},
		{"string in array", "string of 9000 bytes", newBuilder().raw("k", Array, list(uint32(String), 1, text(9000, "abc")...)).bytes()},
		{"array in array", "array of 9000 uint8",
			newBuilder().raw("k", Array, list(uint32(Array), 1, list(uint32(Uint8), 9000, 1)...)).bytes()},
		{"nesting", "nested deeper", newBuilder().raw("k", Array, nested(4)).bytes()},
	})
}

func TestTensorRules(t *testing.T) {
	at := func(b *builder, name string, offset uint64) *builder { b.find(name).at = &offset; return b }
	dims := func(b *builder, d ...uint64) *builder { b.find("a").dims = d; return b }
	checkBroken(t, []broken{
		{"alignment 0", "want a power of two", twoTensors().set("general.alignment", uint32(0)).bytes()},
		{"alignment 24", "want a power of two", twoTensors().set("general.alignment", uint32(24)).bytes()},
		{"alignment type", "general.alignment: got uint64", twoTensors().set("general.alignment", uint64(32)).bytes()},
		{"alignment beyond the file", "a: 32 bytes of F32 data at offset 0, file has 0 there",
			twoTensors().drop("b").set("general.alignment", uint32(1<<31)).bytes()},
		{"tensor name", "want UTF-8", newBuilder().add("a\xff", F32, []int{1}, make([]byte, 4)).bytes()},
		{"tensor twice", "a: tensor is there twice", twoTensors().add("a", F32, []int{1}, make([]byte, 4)).bytes()},
		{"dimension count", "got 5 dimensions", dims(twoTensors(), 1, 1, 1, 1, 8).bytes()},
		{"dimension 0", "dimension 1 is 0", dims(twoTensors(), 8, 0).bytes()},
		{"dimensions overflow", "overflow", dims(twoTensors(), 1<<32, 1<<32).bytes()},
		{"dimension above int64", "overflow", dims(twoTensors(), math.MaxUint64).bytes()},
		{"bytes overflow", "overflows", dims(twoTensors(), 1<<61, 3).bytes()},
		{"tensor type", "a: unknown ggml type 4", func() []byte { b := twoTensors(); b.find("a").kind = 4; return b.bytes() }()},
		{"part of a block", "want a multiple of the 32 values of a Q8_0 block", newBuilder().add("a", Q8_0, []int{33}, make([]byte, 68)).bytes()},
		{"rows of part of a block", "rows of 16 values", newBuilder().add("a", Q8_0, []int{2, 16}, make([]byte, 34)).bytes()},
		{"offset not aligned", "b: data at offset 40", at(twoTensors(), "b", 40).bytes()},
		{"offset beyond the file", "b: data at offset", at(twoTensors(), "b", math.MaxUint64-31).bytes()},
		{"data beyond the file", "b: 32 bytes of F32 data at offset 64", at(twoTensors(), "b", 64).bytes()},
		{"overlap", "data overlaps that of", at(twoTensors(), "b", 0).bytes()},
	})
}

// Every file cut short is refused: the last tensor ends at the last byte.
func TestTruncated(t *testing.T) {
	b, _ := tinyBuilder(tinyShape())
	raw := b.bytes()
	for n := 0; n < len(raw); n = max(n+1, n+n/200) {
		if _, err := openBytes(raw[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes: no error", n, len(raw))
		}
	}
}

// A header's claims cost no memory: files of a few hundred bytes that claim terabytes are refused in little.
func TestClaimsCostNothing(t *testing.T) {
	claims := [][]byte{
		newBuilder().raw("k", String, le(uint64(1)<<40)).bytes(),
		newBuilder().raw("k", Array, slices.Concat(le(uint32(String)), le(uint64(1)<<40))).bytes(),
		func() []byte {
			b := newBuilder().add("a", F32, []int{1}, make([]byte, 4))
			b.find("a").dims = []uint64{1 << 40}
			return b.bytes()
		}(),
		func() []byte { raw := newBuilder().bytes(); copy(raw[8:], le(uint64(1)<<40)); return raw }(),
		func() []byte { raw := newBuilder().bytes(); copy(raw[16:], le(uint64(1)<<40)); return raw }(),
	}
	for i, raw := range claims {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := openBytes(raw)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("claim %d: no error", i)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
			t.Errorf("claim %d: %d bytes allocated for a file of %d", i, got, len(raw))
		}
	}
}

func TestOpenFolder(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want a refusal", err)
	}
}
