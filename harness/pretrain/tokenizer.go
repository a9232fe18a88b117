package pretrain

import (
	"encoding/json"
	"strings"
)

// tokenizerJSON is the task's vocabulary as a tokenizer.json: byte-level BPE without merges, where a word of the vocabulary is one token
// and anything else its bytes. Every text begins with the begin token.
func (t *Task) tokenizerJSON() ([]byte, error) {
	vocab := map[string]int32{beginToken: begin, endToken: end}
	for b := range 256 {
		vocab[byteLetter(byte(b))] = byteID(byte(b))
	}
	for w, id := range t.ids {
		vocab[strings.ReplaceAll(w, " ", byteLetter(' '))] = id
	}
	added := func(id int32, content string) map[string]any {
		return map[string]any{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	}
	sequence := func(id string) map[string]any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": 0}}
	}
	special := map[string]any{"SpecialToken": map[string]any{"id": beginToken, "type_id": 0}}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return json.MarshalIndent(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil,
		"added_tokens":  []any{added(begin, beginToken), added(end, endToken)},
		"pre_tokenizer": byteLevel, "decoder": byteLevel,
		"post_processor": map[string]any{
			"type": "TemplateProcessing", "single": []any{special, sequence("A")}, "pair": []any{special, sequence("A"), sequence("B")},
			"special_tokens": map[string]any{beginToken: map[string]any{"id": beginToken, "ids": []int32{begin}, "tokens": []string{beginToken}}},
		},
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": true, "vocab": vocab, "merges": []string{},
		},
	}, "", " ")
}

// byteLetter is the character that stands for a byte in byte-level vocabularies (GPT-2's table): itself where it prints, else one from 256 on.
func byteLetter(b byte) string {
	prints := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if prints(int(b)) {
		return string(rune(b))
	}
	n := 256
	for i := range int(b) {
		if !prints(i) {
			n++
		}
	}
	return string(rune(n))
}

// tokenizerConfig is the tokenizer_config.json beside it.
func tokenizerConfig(window int) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": beginToken, "eos_token": endToken, "model_max_length": window,
		"clean_up_tokenization_spaces": false,
	}, "", "  ")
}
