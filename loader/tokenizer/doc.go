// Package tokenizer reads a HuggingFace tokenizer.json and does exactly what the tokenizers library does with it: the same
// ids, and the same character offsets, for any text.
//
// # Mental model
//
// A tokenizer.json is a pipeline. Text enters on the left, and each stage works on pieces of it that remember which bytes
// of the text they came from:
//
//	text -> added tokens -> normalizer -> pre-tokenizer -> BPE -> post-processor -> ids + byte spans
//	        (cut out)       (rewrites)    (cuts words)    (merges) (adds BOS, EOS)
//
// The file alone decides; nothing is keyed on a model's name. Supported are BPE models with the normalizers Prepend,
// Replace and NFC, the pre-tokenizers Split, ByteLevel, Digits and Metaspace, the post-processors TemplateProcessing and
// ByteLevel, the decoders ByteLevel, Replace, ByteFallback, Fuse and Strip, and sequences of them: what Llama, Mistral,
// Qwen, OLMo, SmolLM, Gemma and GPT-2 use. Anything else is refused by name with an error that wraps [ErrUnsupported].
//
// # Example
//
//	tok, err := tokenizer.Load("models/SmolLM2-135M-Instruct")
//	if err != nil {
//		return err
//	}
//	enc, err := tok.Encode("The code is HBRPO.", tokenizer.Options{})
//	if err != nil {
//		return err
//	}
//	lo, hi, ok := enc.TokenSpan(12, 17) // tokens whose text overlaps "HBRPO"
//
// # Chat templates
//
// [Tokenizer.Chat] writes a conversation in the checkpoint's template, as transformers' apply_chat_template does. The expressions are run
// by github.com/ardanlabs/jinja; white space is trimmed here. The template writes BOS itself: its result is encoded without AddSpecial.
// Where Jinja stops at an undefined value, as in templates that cannot do without tools, the library may go on with nothing; and it
// prints none, floats and lists in forms of its own, which templates of messages do not print.
//
// # BOS
//
// Options.AddSpecial adds what the post-processor of tokenizer.json adds. The add_bos_token and add_eos_token of tokenizer_config.json
// change nothing, as in transformers 5; transformers 4 let them change the post-processor of some tokenizer classes.
//
// # Place in the map
//
// Below loader, which opens it with a checkpoint; imports no other package of this module. Prompts are encoded whole and
// once, and token spans are found from byte offsets ([Encoding.TokenSpan]): pieces encoded apart and put together do not
// give the same ids.
//
// # Where it differs
//
// Letters and digits are those of Go's Unicode tables (15.0); characters newer than that may be cut differently. The
// reference is the pipeline of tokenizer.json as the tokenizers library runs it, not what a transformers version rebuilds from
// a tokenizer's class name: for the class GPT2Tokenizer, transformers 5 makes a new pre-tokenizer and loses the Digits node of
// SmolLM2, which shows in texts like " ½".
//
// Decode gives back an added token as the file writes it, as the library did up to version 0.22. From 0.23 on the library gives tokens
// with "normalized": true in their normalized form, with the "▁" that a Prepend puts before them, and its skip_special_tokens no longer
// knows them for special.
package tokenizer
