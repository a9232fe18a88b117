package gguf

import (
	"fmt"
	"slices"
	"strings"
)

// Token types, as llama.cpp numbers them (enum llama_token_type).
const (
	tokenControl     = 3
	tokenUserDefined = 4
	tokenByte        = 6
)

// vocabulary is the tokenizer part of a GGUF file, checked.
type vocabulary struct {
	tokens   []string
	merges   []string // "left right"
	kinds    []int64
	ids      specialIDs
	pre      pipeline
	bos, eos bool // put before and after a text
	template any  // chat template: string or nil
	notes    []string
}

// specialIDs are token ids: int, or nil where the file names none.
type specialIDs struct {
	bos, eos, pad, unk any
}

// pipeline is what stands around the BPE model in tokenizer.json.
type pipeline struct {
	normalizer, pre, post any
	ignoreMerges          bool
	bos                   bool // put before a text unless the file says otherwise
	class                 string
}

// Split patterns of the published tokenizer.json files; they differ in how many digits make a word.
const (
	splitLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	splitQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func byteLevel(addPrefixSpace, trimOffsets, useRegex bool) object {
	return object{{"type", "ByteLevel"}, {"add_prefix_space", addPrefixSpace}, {"trim_offsets", trimOffsets}, {"use_regex", useRegex}}
}

func sequence(kind string, parts ...any) object {
	return object{{"type", "Sequence"}, {kind, parts}}
}

func splitThenBytes(pattern string) object {
	split := object{{"type", "Split"}, {"pattern", object{{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}}
	return sequence("pretokenizers", split, byteLevel(false, true, false))
}

// pipelineOf returns the pipeline for a value of tokenizer.ggml.pre.
func pipelineOf(pre string) (pipeline, bool) {
	switch pre {
	case "smollm":
		digits := object{{"type", "Digits"}, {"individual_digits", true}}
		return pipeline{pre: sequence("pretokenizers", digits, byteLevel(false, true, true)), class: "GPT2Tokenizer"}, true
	case "gpt-2", "default":
		return pipeline{pre: byteLevel(false, true, true), post: byteLevel(true, false, true), class: "GPT2Tokenizer"}, true
	case "llama-bpe", "llama3", "llama-v3":
		return pipeline{pre: splitThenBytes(splitLlama3), post: byteLevel(true, false, true), ignoreMerges: true, bos: true,
			class: "PreTrainedTokenizerFast"}, true
	case "qwen2":
		return pipeline{normalizer: object{{"type", "NFC"}}, pre: splitThenBytes(splitQwen2), post: byteLevel(false, false, false),
			class: "Qwen2Tokenizer"}, true
	}
	return pipeline{}, false
}

// readVocabulary reads and checks the tokenizer.* metadata for a model with that many embedding rows.
func readVocabulary(f *File, rows int) (*vocabulary, error) {
	k := &keys{f: f}
	v := &vocabulary{}
	model, pre := k.text("tokenizer.ggml.model", ""), k.text("tokenizer.ggml.pre", "")
	if k.err != nil {
		return nil, k.err
	}
	if model != "gpt2" {
		return nil, fmt.Errorf("tokenizer.ggml.model: %w", unsupported("got %q, want \"gpt2\" (byte-level BPE)", model))
	}
	var ok bool
	if v.pre, ok = pipelineOf(pre); !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre: %w", unsupported("got %q, want smollm, llama-bpe, qwen2, gpt-2 or default", pre))
	}
	if pre == "default" {
		v.notes = append(v.notes, `tokenizer.ggml.pre is "default": the file's maker did not know how the model splits text into words; `+
			`GPT-2's way is written`)
	}
	if err := v.checkKeys(f); err != nil {
		return nil, err
	}
	if err := v.readTokens(f, rows); err != nil {
		return nil, err
	}
	v.bos = k.flag("tokenizer.ggml.add_bos_token", v.pre.bos)
	v.eos = k.flag("tokenizer.ggml.add_eos_token", false)
	if k.flag("tokenizer.ggml.add_space_prefix", false) {
		k.fail("tokenizer.ggml.add_space_prefix", unsupported("got true, want false for byte-level BPE"))
	}
	if _, has := f.values["tokenizer.chat_template"]; has {
		v.template = k.text("tokenizer.chat_template", "")
	}
	v.ids = specialIDs{bos: v.id(k, "bos"), eos: v.id(k, "eos"), pad: v.id(k, "padding"), unk: v.id(k, "unknown")}
	if v.bos && v.ids.bos == nil {
		k.fail("tokenizer.ggml.bos_token_id", fmt.Errorf("key is missing, but a text begins with this token"))
	}
	if v.eos && v.ids.eos == nil {
		k.fail("tokenizer.ggml.eos_token_id", fmt.Errorf("key is missing, but a text ends with this token"))
	}
	return v, k.err
}

// checkKeys refuses tokenizer keys that nobody here has looked at: they may change ids.
func (v *vocabulary) checkKeys(f *File) error {
	for _, key := range f.keys {
		name, ok := strings.CutPrefix(key, "tokenizer.")
		if !ok {
			continue
		}
		switch name {
		case "ggml.model", "ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges", "ggml.add_bos_token", "ggml.add_eos_token",
			"ggml.add_space_prefix", "chat_template", "chat_templates", "ggml.bos_token_id", "ggml.eos_token_id",
			"ggml.padding_token_id", "ggml.unknown_token_id":
			continue
		case "ggml.scores", "ggml.token_type_count", "ggml.seperator_token_id", "ggml.separator_token_id", "ggml.cls_token_id",
			"ggml.mask_token_id", "ggml.eot_token_id", "ggml.eom_token_id", "ggml.prefix_token_id", "ggml.suffix_token_id",
			"ggml.middle_token_id", "ggml.fim_pre_token_id", "ggml.fim_suf_token_id", "ggml.fim_mid_token_id",
			"ggml.fim_pad_token_id", "ggml.fim_rep_token_id", "ggml.fim_sep_token_id":
			continue // no part in encoding text by byte-level BPE
		}
		if strings.HasPrefix(name, "chat_template.") {
			v.notes = append(v.notes, key+": only the default chat template is written")
			continue
		}
		return fmt.Errorf("%s: %w", key, unsupported("key is not understood: %v", f.values[key]))
	}
	return nil
}

// readTokens reads tokens, token types and merges.
func (v *vocabulary) readTokens(f *File, rows int) error {
	var err error
	read := func(key string, into func(Value) error) {
		value, ok := f.values[key]
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("%s: key is missing", key)
		default:
			if e := into(value); e != nil {
				err = fmt.Errorf("%s: %w", key, e)
			}
		}
	}
	read("tokenizer.ggml.tokens", func(x Value) (e error) { v.tokens, e = x.Texts(); return e })
	read("tokenizer.ggml.token_type", func(x Value) (e error) { v.kinds, e = x.Ints(); return e })
	read("tokenizer.ggml.merges", func(x Value) (e error) { v.merges, e = x.Texts(); return e })
	if err != nil {
		return err
	}
	if len(v.tokens) > rows {
		return fmt.Errorf("tokenizer.ggml.tokens: got %d tokens, token_embd.weight has %d rows", len(v.tokens), rows)
	}
	if len(v.kinds) != len(v.tokens) {
		return fmt.Errorf("tokenizer.ggml.token_type: got %d types for %d tokens", len(v.kinds), len(v.tokens))
	}
	known := make(map[string]struct{}, len(v.tokens))
	for i, t := range v.tokens {
		if _, dup := known[t]; dup {
			return fmt.Errorf("tokenizer.ggml.tokens: token %d, %q, is there twice", i, t)
		}
		known[t] = struct{}{}
		if k := v.kinds[i]; k < 1 || k >= tokenByte {
			return fmt.Errorf("tokenizer.ggml.token_type: %w", unsupported("token %d has type %d, want 1 to 5 for byte-level BPE", i, k))
		}
	}
	for i, m := range v.merges {
		left, right, ok := strings.Cut(m, " ")
		for _, t := range []string{left, right, left + right} {
			if _, in := known[t]; !in || !ok || strings.Contains(right, " ") {
				return fmt.Errorf("tokenizer.ggml.merges: merge %d, %q: no token %q", i, m, t)
			}
		}
	}
	return nil
}

// id reads tokenizer.ggml.<role>_token_id.
func (v *vocabulary) id(k *keys, role string) any {
	key := "tokenizer.ggml." + role + "_token_id"
	value, ok := k.f.values[key]
	if !ok {
		return nil
	}
	n, err := value.Int()
	if err == nil && (n < 0 || n >= int64(len(v.tokens))) {
		err = fmt.Errorf("got %d, want an id below %d", n, len(v.tokens))
	}
	if err != nil {
		k.fail(key, err)
		return nil
	}
	return int(n)
}

// tokenizerJSON returns tokenizer.json. Control and user-defined tokens are found in raw text before anything else is done to it.
func (v *vocabulary) tokenizerJSON() object {
	added, vocab := []any{}, make(object, len(v.tokens))
	for i, t := range v.tokens {
		vocab[i] = member{t, i}
		if v.kinds[i] == tokenControl || v.kinds[i] == tokenUserDefined {
			added = append(added, object{{"id", i}, {"content", t}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
				{"normalized", false}, {"special", true}})
		}
	}
	bpe := object{{"type", "BPE"}, {"dropout", nil}, {"unk_token", nil}, {"continuing_subword_prefix", nil},
		{"end_of_word_suffix", nil}, {"fuse_unk", false}, {"byte_fallback", false}, {"ignore_merges", v.pre.ignoreMerges},
		{"vocab", vocab}, {"merges", v.merges}}
	return object{{"version", "1.0"}, {"truncation", nil}, {"padding", nil}, {"added_tokens", added},
		{"normalizer", v.pre.normalizer}, {"pre_tokenizer", v.pre.pre}, {"post_processor", v.postProcessor()},
		{"decoder", byteLevel(true, true, true)}, {"model", bpe}}
}

// postProcessor is the pipeline's own, followed by a template where a text begins or ends with a special token.
func (v *vocabulary) postProcessor() any {
	if !v.bos && !v.eos {
		return v.pre.post
	}
	special := object{}
	token := func(id any, segment int) object {
		t := v.tokens[id.(int)]
		if !slices.ContainsFunc(special, func(m member) bool { return m.key == t }) {
			special = append(special, member{t, object{{"id", t}, {"ids", []any{id}}, {"tokens", []string{t}}}})
		}
		return object{{"SpecialToken", object{{"id", t}, {"type_id", segment}}}}
	}
	part := func(name string, segment int) (parts []any) {
		if v.bos {
			parts = append(parts, token(v.ids.bos, segment))
		}
		parts = append(parts, object{{"Sequence", object{{"id", name}, {"type_id", segment}}}})
		if v.eos {
			parts = append(parts, token(v.ids.eos, segment))
		}
		return parts
	}
	single := part("A", 0)
	pair := append(part("A", 0), part("B", 1)...)
	template := object{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}}
	if v.pre.post == nil {
		return template
	}
	return sequence("processors", v.pre.post, template)
}

// configJSON returns tokenizer_config.json for a model of that context length.
func (v *vocabulary) configJSON(context int) object {
	o := object{{"add_prefix_space", false}}
	if v.bos {
		o = append(o, member{"add_bos_token", true})
	}
	if v.eos {
		o = append(o, member{"add_eos_token", true})
	}
	for _, t := range []struct {
		key string
		id  any
	}{{"bos_token", v.ids.bos}, {"eos_token", v.ids.eos}, {"pad_token", v.ids.pad}, {"unk_token", v.ids.unk}} {
		if id, ok := t.id.(int); ok {
			o = append(o, member{t.key, v.tokens[id]})
		} else {
			o = append(o, member{t.key, nil})
		}
	}
	o = append(o, object{{"clean_up_tokenization_spaces", false}, {"model_max_length", context}, {"tokenizer_class", v.pre.class}}...)
	if v.template != nil {
		o = append(o, member{"chat_template", v.template})
	}
	return o
}
