// Package needle writes needle prompts: a code stands in one sentence of a long plain text, and the question asks for it.
//
// # Mental model
//
// Two steps, so that models with different tokenizers are asked the same things:
//
//	Options -> Specs -> []Spec                        no tokenizer: template, wording, subjects, depth, sentence order, candidates
//	Spec + tokenizer -> Realise -> Set{Prompts, ...}  the text at a measured number of tokens, or a Refusal with a reason
//
// A [Spec] follows from (seed, split, sample number) alone. It holds ordered lists of candidate codes; a tokenizer takes the
// first that has exactly the wanted number of tokens, with the same ids in the text and as an answer. The same spec therefore
// gives different codes and different amounts of haystack to different tokenizers, but never another template, wording, subject,
// depth or sentence order.
//
// The splits share nothing that a detector could learn: codes, sentences, subjects and wordings of [Detect] never occur in
// [Test], nor those of either in [Agreement], whose prompts go through the [Kinds] of needles.
//
// Everything that [Realise] promises is checked on the encoding of the whole finished text: length, spans, token ids of code,
// decoy and donor. What cannot be met is a [Refusal], never a prompt that is a little off.
//
// # Example
//
//	specs, err := needle.Specs(needle.Options{Seed: 42, Split: needle.Test, N: 200})
//	...
//	set, err := needle.Realise(ctx, tok, specs, needle.RealiseOptions{Tokens: 4096, Variants: needle.Variants()})
//	...
//	for _, r := range set.Refusals { log.Println(r) }
//	err = needle.WriteJSONL(w, set.Prompts)
//
// # Place in the map
//
// Below harness, which runs the prompts; stands on loader/tokenizer alone.
package needle
