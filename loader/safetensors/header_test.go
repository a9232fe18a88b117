package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// file puts a header and data together as a file, without any check.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func parseBytes(b []byte) (*File, error) { return Parse(bytes.NewReader(b), int64(len(b))) }

// headerCase is a file and the rule it breaks, empty for a legal one.
type headerCase struct {
	name string
	file []byte
	rule Rule
}

const f32x1 = `{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`

// one is a file with a single tensor "a" whose object is the argument.
func one(object string, data int) []byte { return file(`{"a":`+object+`}`, data) }

func headerCases() []headerCase {
	length := func(n uint64, rest int) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), make([]byte, rest)...)
	}
	return append([]headerCase{
		{"empty file", nil, RuleHeaderTooSmall},
		{"seven bytes", make([]byte, 7), RuleHeaderTooSmall},
		{"length 2^63", length(1<<63, 8), RuleHeaderTooLarge},
		{"length 2^64-1", length(1<<64-1, 8), RuleHeaderTooLarge},
		{"length one over the cap", length(MaxHeader+1, 8), RuleHeaderTooLarge},
		{"length at the cap in a small file", length(MaxHeader, 8), RuleHeaderLength},
		{"length one over the file", length(3, 2), RuleHeaderLength},
		{"invalid UTF-8", file("{\"\xff\":"+f32x1+"}", 4), RuleUTF8},
		{"overlong UTF-8", file("{\"\xc0\xaf\":"+f32x1+"}", 4), RuleUTF8},
		{"UTF-8 surrogate", file("{\"\xed\xa0\x80\":"+f32x1+"}", 4), RuleUTF8},
		{"no header", file("", 0), RuleHeaderStart},
		{"leading space", file(` {"a":`+f32x1+`}`, 4), RuleHeaderStart},
		{"byte order mark", file("\ufeff{}", 0), RuleHeaderStart},
		{"array", file(`[]`, 0), RuleHeaderStart},
	}, append(jsonCases(), tensorCases()...)...)
}

func jsonCases() []headerCase {
	return []headerCase{
		{"cut off", file(`{"a":`+f32x1, 4), RuleJSON},
		{"text behind", file(`{}{}`, 0), RuleJSON},
		{"NUL padding", file("{}\x00\x00", 0), RuleJSON},
		{"trailing comma", file(`{"a":`+f32x1+`,}`, 4), RuleJSON},
		{"leading comma", file(`{,"a":`+f32x1+`}`, 4), RuleJSON},
		{"missing colon", file(`{"a"`+f32x1+`}`, 4), RuleJSON},
		{"single quotes", file(`{'a':`+f32x1+`}`, 4), RuleJSON},
		{"line feed in a name", file("{\"a\n\":"+f32x1+"}", 4), RuleJSON},
		{"line feed behind an escape", file("{\"\\t\n\":"+f32x1+"}", 4), RuleJSON},
		{"unknown escape", file(`{"\x":`+f32x1+`}`, 4), RuleJSON},
		{"escape cut off", file(`{"\`, 0), RuleJSON},
		{"hex escape cut off", file(`{"\u00`, 0), RuleJSON},
		{"bad hex", file(`{"\u00g0":`+f32x1+`}`, 4), RuleJSON},
		{"lone high surrogate", file(`{"\ud83d":`+f32x1+`}`, 4), RuleJSON},
		{"lone low surrogate", file(`{"\ude00":`+f32x1+`}`, 4), RuleJSON},
		{"two high surrogates", file(`{"\ud83d\ud83d":`+f32x1+`}`, 4), RuleJSON},
		{"leading zero", one(`{"dtype":"F32","shape":[01],"data_offsets":[0,4]}`, 4), RuleJSON},
		{"comma in shape", one(`{"dtype":"F32","shape":[1,],"data_offsets":[0,4]}`, 4), RuleShape},
		{"duplicate tensor", file(`{"a":`+f32x1+`,"a":`+f32x1+`}`, 4), RuleDuplicateKey},
		{"duplicate tensor apart", file(`{"a":`+f32x1+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), RuleDuplicateKey},
		{"duplicate tensor, escaped", file(`{"a":`+f32x1+`,"\u0061":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), RuleDuplicateKey},
		{"duplicate dtype", one(`{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}`, 4), RuleDuplicateKey},
		{"duplicate shape", one(`{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}`, 4), RuleDuplicateKey},
		{"duplicate data_offsets", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offset\u0073":[0,4]}`, 4), RuleDuplicateKey},
		{"duplicate __metadata__", file(`{"__metadata__":{},"a":`+f32x1+`,"__metadata__":{}}`, 4), RuleDuplicateKey},
		{"duplicate in __metadata__", file(`{"__metadata__":{"k":"1","k":"1"}}`, 0), RuleDuplicateKey},
		{"__metadata__ null", file(`{"__metadata__":null}`, 0), RuleMetadata},
		{"__metadata__ a tensor", file(`{"__metadata__":`+f32x1+`}`, 4), RuleMetadata},
		{"__metadata__ with a number", file(`{"__metadata__":{"k":1}}`, 0), RuleMetadata},
		{"__metadata__ nested", file(`{"__metadata__":{"k":{"a":"b"}}}`, 0), RuleMetadata},
	}
}

func tensorCases() []headerCase {
	return []headerCase{
		{"tensor null", one(`null`, 0), RuleTensorField},
		{"tensor nested deep", one(strings.Repeat("[", 1<<20), 0), RuleTensorField},
		{"no dtype", one(`{"shape":[1],"data_offsets":[0,4]}`, 4), RuleTensorField},
		{"no shape", one(`{"dtype":"F32","data_offsets":[0,4]}`, 4), RuleTensorField},
		{"no data_offsets", one(`{"dtype":"F32","shape":[1]}`, 4), RuleTensorField},
		{"unknown key", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]}`, 4), RuleTensorField},
		{"unknown dtype", one(`{"dtype":"F23","shape":[1],"data_offsets":[0,4]}`, 4), RuleDType},
		{"lower-case dtype", one(`{"dtype":"f32","shape":[1],"data_offsets":[0,4]}`, 4), RuleDType},
		{"dtype a number", one(`{"dtype":32,"shape":[1],"data_offsets":[0,4]}`, 4), RuleDType},
		{"shape a number", one(`{"dtype":"F32","shape":1,"data_offsets":[0,4]}`, 4), RuleShape},
		{"shape nested", one(`{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}`, 4), RuleShape},
		{"negative dimension", one(`{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}`, 4), RuleShape},
		{"two negative dimensions", one(`{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}`, 4), RuleShape},
		{"dimension a fraction", one(`{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}`, 4), RuleShape},
		{"dimension with an exponent", one(`{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}`, 4), RuleShape},
		{"offsets an object", one(`{"dtype":"F32","shape":[1],"data_offsets":{}}`, 4), RuleDataOffsets},
		{"one offset", one(`{"dtype":"F32","shape":[1],"data_offsets":[0]}`, 4), RuleDataOffsets},
		{"three offsets", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}`, 4), RuleDataOffsets},
		{"negative offset", one(`{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}`, 4), RuleDataOffsets},
		{"offset a string", one(`{"dtype":"F32","shape":[1],"data_offsets":["0",4]}`, 4), RuleDataOffsets},
		{"offset beyond 2^63", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775808]}`, 4), RuleOverflow},
		{"offset of many digits", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,`+strings.Repeat("9", 1000)+`]}`, 4), RuleOverflow},
		{"dimension beyond 2^63", one(`{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}`, 4), RuleOverflow},
		{"product overflow", one(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}`, 0), RuleOverflow},
		{"product overflow to 1", one(`{"dtype":"U8","shape":[274177,67280421310721,1],"data_offsets":[0,1]}`, 1), RuleOverflow},
		{"product overflow ahead of a zero", one(`{"dtype":"F32","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}`, 0), RuleOverflow},
		{"byte size overflow", one(`{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}`, 0), RuleOverflow},
		{"half a byte", one(`{"dtype":"F4","shape":[3],"data_offsets":[0,2]}`, 2), RuleSubByte},
		{"three quarters", one(`{"dtype":"F6_E2M3","shape":[5],"data_offsets":[0,4]}`, 4), RuleSubByte},
		{"hole at the start", one(`{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`, 8), RuleNotContiguous},
		{"hole between", file(`{"a":`+f32x1+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), RuleNotContiguous},
		{"overlap", file(`{"a":`+f32x1+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6), RuleNotContiguous},
		{"same bytes twice", file(`{"a":`+f32x1+`,"b":`+f32x1+`}`, 4), RuleNotContiguous},
		{"backwards", one(`{"dtype":"F32","shape":[1],"data_offsets":[4,0]}`, 4), RuleNotContiguous},
		{"range too short", one(`{"dtype":"F32","shape":[2],"data_offsets":[0,4]}`, 4), RuleTensorSize},
		{"range too long", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,8]}`, 8), RuleTensorSize},
		{"scalar without bytes", one(`{"dtype":"F32","shape":[],"data_offsets":[0,0]}`, 0), RuleTensorSize},
		{"empty with bytes", one(`{"dtype":"F32","shape":[0],"data_offsets":[0,4]}`, 4), RuleTensorSize},
		{"bytes behind the last tensor", one(f32x1, 5), RuleUncoveredBuffer},
		{"last tensor cut off", one(f32x1, 3), RuleUncoveredBuffer},
		{"range beyond the file", one(`{"dtype":"U8","shape":[9223372036854775],"data_offsets":[0,9223372036854775]}`, 4), RuleUncoveredBuffer},
		{"bytes and no tensor", file(`{}`, 1), RuleUncoveredBuffer},
	}
}

func legalCases() []headerCase {
	return []headerCase{
		{"no tensors", file(`{}`, 0), ""},
		{"one", one(f32x1, 4), ""},
		{"scalar", one(`{"dtype":"BF16","shape":[],"data_offsets":[0,2]}`, 2), ""},
		{"empty tensor", one(`{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}`, 0), ""},
		{"empty tensors between", file(`{"z":`+f32x1+`,"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"c":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}}`, 4), ""},
		{"keys not in data order", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"b":`+f32x1+`}`, 8), ""},
		{"fields in another order", one(`{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}`, 4), ""},
		{"packed 4-bit", one(`{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}`, 3), ""},
		{"packed 6-bit", one(`{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}`, 3), ""},
		{"padding and white space", file("{ \"a\" :\t"+f32x1+"\r\n}      ", 4), ""},
		{"metadata", file(`{"__metadata__":{"format":"pt","":"\ud83d\ude00\"\\\/\b\f\n\r\t"},"a":`+f32x1+`}`, 4), ""},
		{"odd names", file(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u00e9\u0000":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"..\/x":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), ""},
		{"unaligned", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}`, 9), ""},
	}
}

// ruleOf returns the rule that the error carries, empty for nil; any other error fails the test.
func ruleOf(t *testing.T, err error) Rule {
	t.Helper()
	if err == nil {
		return ""
	}
	var bad *HeaderError
	if !errors.As(err, &bad) {
		t.Fatalf("got error %v of type %T, want a *HeaderError", err, err)
	}
	return bad.Rule
}

func TestHeaderRules(t *testing.T) {
	tested := map[Rule]bool{}
	for _, c := range append(headerCases(), legalCases()...) {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseBytes(c.file)
			if got := ruleOf(t, err); got != c.rule {
				t.Errorf("got rule %q (%v), want %q", got, err, c.rule)
			}
			tested[c.rule] = true
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("error text of %d bytes: a file decides its length", len(err.Error()))
			}
		})
	}
	for _, rule := range []Rule{RuleHeaderTooSmall, RuleHeaderTooLarge, RuleHeaderLength, RuleUTF8, RuleHeaderStart, RuleJSON, RuleDuplicateKey, RuleMetadata,
		RuleTensorField, RuleDType, RuleShape, RuleDataOffsets, RuleOverflow, RuleSubByte, RuleNotContiguous, RuleTensorSize, RuleUncoveredBuffer} {
		if !tested[rule] {
			t.Errorf("no test breaks rule %q", rule)
		}
	}
}

func TestDTypeSizes(t *testing.T) {
	bytes := map[DType]int{BOOL: 8, F4: 4, F6E2M3: 6, F6E3M2: 6, U8: 8, I8: 8, F8E5M2: 8, F8E4M3: 8, F8E8M0: 8, F8E4M3FNUZ: 8, F8E5M2FNUZ: 8,
		I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64}
	for d, bits := range bytes {
		// Eight elements take as many bytes as one takes bits.
		f, err := parseBytes(one(fmt.Sprintf(`{"dtype":%q,"shape":[8],"data_offsets":[0,%d]}`, d, bits), bits))
		if err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		if info, ok := f.Info("a"); !ok || info.DType != d || info.End != int64(bits) {
			t.Errorf("%s: got %v", d, info)
		}
	}
}

func TestHeaderContents(t *testing.T) {
	f, err := parseBytes(legalCases()[10].file)
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Metadata(); len(m) != 2 || m["format"] != "pt" || m[""] != "😀\"\\/\b\f\n\r\t" {
		t.Errorf("metadata: got %q", m)
	}
	f, err = parseBytes(legalCases()[11].file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(f.Names(), "|"), "|../x|é\x00"; got != want {
		t.Errorf("names: got %q, want %q", got, want)
	}
	if _, ok := f.Info("x"); ok {
		t.Error("a name that is not there was found")
	}
	info, _ := f.Info("../x")
	info.Shape[0] = 99
	if again, _ := f.Info("../x"); again.Shape[0] != 1 {
		t.Error("a caller's change of Shape reached the file")
	}
}
