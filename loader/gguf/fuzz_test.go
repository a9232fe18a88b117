package gguf

import (
	"testing"
)

// FuzzOpen feeds anything to the reader and to everything that works on an opened file: errors are fine, a panic or a result that
// breaks the reader's own promises is not.
func FuzzOpen(f *testing.F) {
	tiny, _ := tinyBuilder(tinyLlama{1, 32, 2, 1, 16, 32, 100})
	f.Add(tiny.bytes())
	f.Add(newBuilder().set("nested", [][]int32{{1}, {2, 3}}).set("general.alignment", uint32(8)).
		add("w", Q4_1, []int{2, 32}, make([]byte, 40)).add("v", 12, []int{256}, make([]byte, 144)).bytes())
	f.Add([]byte("GGUF"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := openBytes(raw)
		if err != nil {
			return
		}
		for key, v := range file.Metadata() {
			if key == "" {
				t.Error("empty key")
			}
			_ = v.String()
			if texts, err := v.Texts(); err == nil && len(texts) != v.N {
				t.Errorf("%s: %d texts, want %d", key, len(texts), v.N)
			}
			if ints, err := v.Ints(); err == nil && len(ints) != v.N {
				t.Errorf("%s: %d ints, want %d", key, len(ints), v.N)
			}
		}
		for _, x := range file.Tensors() {
			values, err := file.Float32s(x.Name)
			if err == nil && len(values) != x.Len() {
				t.Errorf("%s: %d weights, want %d", x.Name, len(values), x.Len())
			}
			if err != nil && supported(x.Type) {
				t.Errorf("%s: in range by the header, but: %v", x.Name, err)
			}
			if len(values) > 2*len(raw) {
				t.Errorf("%s: %d weights out of a file of %d bytes", x.Name, len(values), len(raw))
			}
		}
		if c, err := newConversion(file); err == nil {
			_ = c.vocab.tokenizerJSON()
			_ = c.model.configJSON(c.plan, c.vocab.ids)
		}
	})
}
