package loader

// harmlessKeys are those of transformers' base class, and of the tools that write configs, that change nothing in a forward pass.
var harmlessKeys = []string{
	// provenance and storage
	"_name_or_path", "transformers_version", "torch_dtype", "dtype", "tokenizer_class", "unsloth_version", "unsloth_fixed",
	"transformers.js_config", "auto_map", "trust_remote_code", "_commit_hash", "model_max_length",
	"task_specific_params", "finetuning_task", "pretraining_dataset",
	// choice of kernels
	"use_cache", "cache_implementation", "_attn_implementation_autoset", "_attn_implementation", "attn_implementation", "_flash_attn_2_enabled",
	// training
	"initializer_range", "attention_dropout", "hidden_dropout", "embd_pdrop", "resid_pdrop", "classifier_dropout", "attention_probs_dropout_prob",
	"hidden_dropout_prob", "neftune_noise_alpha", "gradient_checkpointing",
	// shape of what transformers returns
	"output_attentions", "output_hidden_states", "return_dict", "torchscript", "problem_type", "id2label", "label2id",
	// generation, which is the caller's business here
	"pad_token_id", "sep_token_id", "decoder_start_token_id", "max_length", "max_sequence_length", "min_length", "do_sample",
	"early_stopping", "num_beams", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
	"no_repeat_ngram_size", "max_new_tokens", "num_beam_groups", "diversity_penalty", "encoder_no_repeat_ngram_size", "num_return_sequences",
	"output_scores", "return_dict_in_generate", "remove_invalid_values",
}

// neutralValues are keys that switch something on in some family, at the value that leaves it off. Exporters copy them from family to
// family. They are looked at only where the family did not read them.
var neutralValues = map[string]string{
	"attention_bias": "false", "mlp_bias": "false", "use_qkv_bias": "false", "lm_head_bias": "false", "qk_layernorm": "false",
	"use_qk_norm": "false", "use_parallel_residual": "false", "rope_interleaved": "false", "use_bidirectional_attention": "false", "use_mrope": "false",
	"is_encoder_decoder": "false", "add_cross_attention": "false", "tie_encoder_decoder": "false", "cross_attention_hidden_size": "null",
	"is_decoder": "false", "chunk_size_feed_forward": "0", "pruned_heads": "{}", "full_attn_mod": "1", "interpolate_factor": "1",
	"pretraining_tp": "1", "use_bfloat16": "false", "tf_legacy_loss": "false",
}

// neutral reads what no family needs: keys of other families at the values that say "not in use".
func neutral(c *config, s *Spec) {
	for key, value := range neutralValues {
		if c.has(key) && shown(c.keys[key]) == value {
			c.ignore(key)
		}
	}
	if s.Gated && s.Activation == SiLU && c.has("activation") && shown(c.keys["activation"]) == `"swiglu"` { // Falcon3 says it twice
		c.ignore("activation")
	}
	if !c.read["sliding_window"] {
		noWindow(c, s)
	}
}
