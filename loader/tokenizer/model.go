package tokenizer

import (
	"errors"
	"fmt"
)

var errNotBPE = fmt.Errorf("model: only BPE is read: %w", ErrUnsupported)

// build checks the model of the file and makes it ready to run.
func (j *modelJSON) build(byteLevel bool) (*bpe, error) {
	if j.Type != "BPE" && j.Type != "" {
		return nil, fmt.Errorf("type %q: %w", j.Type, errNotBPE)
	}
	if !j.Vocab.isMap {
		return nil, errors.New("vocab: got no object of tokens and ids")
	}
	if j.Dropout != nil && *j.Dropout != 0 {
		return nil, fmt.Errorf("dropout %g: %w", *j.Dropout, ErrUnsupported)
	}
	if s := j.WordPrefix; s != nil && *s != "" {
		return nil, fmt.Errorf("continuing_subword_prefix %q: %w", *s, ErrUnsupported)
	}
	if s := j.WordSuffix; s != nil && *s != "" {
		return nil, fmt.Errorf("end_of_word_suffix %q: %w", *s, ErrUnsupported)
	}
	m := &bpe{
		vocab: j.Vocab.ids, unk: -1, byteLevel: byteLevel,
		byteFallback: j.ByteFallback, fuseUnk: j.FuseUnk, ignoreMerges: j.IgnoreMerges,
	}
	if j.UnkToken != nil {
		id, ok := m.vocab[*j.UnkToken]
		if !ok {
			return nil, fmt.Errorf("unk_token %q: got a token out of the vocabulary", *j.UnkToken)
		}
		m.unk = id
	}
	if err := m.readBytes(); err != nil {
		return nil, err
	}
	return m, m.readMerges(&j.Merges)
}

// readBytes looks up the token of each byte; a vocabulary need not have them all.
func (m *bpe) readBytes() error {
	if m.byteLevel && m.byteFallback {
		return fmt.Errorf("byte_fallback with a ByteLevel pre-tokenizer: %w", ErrUnsupported)
	}
	for b := range 256 {
		name := string(byteToRune(byte(b)))
		if m.byteFallback {
			name = fmt.Sprintf("<0x%02X>", b)
		}
		id, ok := m.vocab[name]
		if !ok {
			id = -1
		}
		m.bytes[b] = id
	}
	return nil
}

func (m *bpe) readMerges(merges *mergesJSON) error {
	m.merges = make(map[uint64]uint64, len(merges.data)/12)
	var joined []byte
	return merges.each(func(rank int, left, right string) error {
		joined = append(append(joined[:0], left...), right...)
		l, okLeft := m.vocab[left]
		r, okRight := m.vocab[right]
		whole, okWhole := m.vocab[string(joined)]
		switch {
		case !okLeft:
			return fmt.Errorf("%q is not in the vocabulary", left)
		case !okRight:
			return fmt.Errorf("%q is not in the vocabulary", right)
		case !okWhole:
			return fmt.Errorf("the result %q is not in the vocabulary", joined)
		}
		m.merges[pair(l, r)] = uint64(rank)<<32 | uint64(uint32(whole))
		return nil
	})
}
