"""Writes hf_configs.json: what transformers makes of many configurations of each family, drawn from pools of key values.

    python hf_configs.py --out ..

For each configuration the model is built, and from the built model come: names and shapes of the tensors of the first layer and outside the
layers, window of each layer, which layers rotate, inverse frequencies and factor of each rotary table at several lengths, number of heads, scale of
scores, epsilon, whether the head is tied. Where transformers refuses the configuration, or fails on a forward pass, there is `error`.
"""

import argparse
import json
import os
import random
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

torch.set_num_threads(1)
LENGTHS = (1, 12, 13, 40, 41)

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
BLOCKS = [
    None, {"type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": 2.5, "type": "linear"}, {"type": "dynamic", "factor": 3.0}, YARN,
    dict(YARN, attention_factor=1.25), dict(YARN, mscale=0.7, mscale_all_dim=1.0), dict(YARN, mscale=0.7), dict(YARN, beta_fast=64, beta_slow=2),
    dict(YARN, truncate=False), {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16},
    {"rope_type": "yarn"}, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}, {"rope_type": "default"}, {"factor": 2.0}, {"rope_type": "spiral"},
]


def longrope(n, **kw):
    return dict({"rope_type": "longrope", "short_factor": [1.0 + i / 8 for i in range(n)], "long_factor": [2.0 + i / 4 for i in range(n)]}, **kw)


POOL = {
    "num_key_value_heads": [1, 2, 4, None, 3], "head_dim": [8, 16, None], "rms_norm_eps": [1e-3], "layer_norm_eps": [1e-3],
    "hidden_act": ["gelu", "silu", "gelu_pytorch_tanh"], "hidden_activation": ["gelu", "silu", "gelu_pytorch_tanh"],
    "tie_word_embeddings": [True, False], "attention_bias": [True, False], "mlp_bias": [True, False],
    "rope_theta": [500.0, 250000], "rope_scaling": BLOCKS, "partial_rotary_factor": [0.5, 0.25, 1.0],
    "sliding_window": [5, None], "use_sliding_window": [True, False], "max_window_layers": [0, 1, 2],
    "max_position_embeddings": [12, 64],
    "layer_types": [["full_attention"] * 4, ["sliding_attention", "full_attention"] * 2, ["sliding_attention"] * 4],
}
COMMON = ["num_key_value_heads", "hidden_act", "tie_word_embeddings", "rope_theta", "rope_scaling", "max_position_embeddings"]
FAMILIES = {
    "llama": ("LlamaForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias", "mlp_bias", "partial_rotary_factor"], {}),
    "mistral": ("MistralForCausalLM", ["head_dim", "rms_norm_eps", "sliding_window"], {}),
    "qwen2": ("Qwen2ForCausalLM", ["head_dim", "rms_norm_eps", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types"], {}),
    "qwen3": ("Qwen3ForCausalLM", ["head_dim", "rms_norm_eps", "sliding_window", "use_sliding_window", "max_window_layers", "attention_bias"], {}),
    "olmo": ("OlmoForCausalLM", ["attention_bias", "clip_qkv"], {"clip_qkv": [0.5, None]}),
    "olmo2": ("Olmo2ForCausalLM", ["rms_norm_eps", "attention_bias", "head_dim"], {}),
    "olmo3": ("Olmo3ForCausalLM", ["rms_norm_eps", "attention_bias", "sliding_window", "layer_types"], {}),
    "gemma": ("GemmaForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias"], {}),
    "gemma2": ("Gemma2ForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias", "sliding_window", "layer_types", "query_pre_attn_scalar", "attn_logit_softcapping",
                                     "final_logit_softcapping", "hidden_activation"],
               {"query_pre_attn_scalar": [7, 64], "attn_logit_softcapping": [None, 3.0], "final_logit_softcapping": [None, 4.0]}),
    "gemma3_text": ("Gemma3ForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias", "sliding_window", "layer_types", "query_pre_attn_scalar", "rope_local_base_freq",
                                          "sliding_window_pattern", "hidden_activation"],
                    {"query_pre_attn_scalar": [7, 64], "rope_local_base_freq": [100.0], "sliding_window_pattern": [2, 3]}),
    "phi3": ("Phi3ForCausalLM", ["rms_norm_eps", "sliding_window", "partial_rotary_factor", "original_max_position_embeddings"],
             {"original_max_position_embeddings": [12, 40],
              "rope_scaling": [None, longrope(4), longrope(4, type="longrope"), longrope(4, attention_factor=1.5), longrope(2), longrope(4, rope_type="su"), longrope(4, rope_type="yarn"),
                               longrope(4, factor=3.0), longrope(4, original_max_position_embeddings=12), {"type": "linear", "factor": 2.0}]}),
    "stablelm": ("StableLmForCausalLM", ["layer_norm_eps", "partial_rotary_factor", "use_qkv_bias", "qk_layernorm", "use_parallel_residual"],
                 {"use_qkv_bias": [True, False], "qk_layernorm": [True, False], "use_parallel_residual": [True, False]}),
    "gpt_neox": ("GPTNeoXForCausalLM", ["layer_norm_eps", "rotary_emb_base", "rotary_pct", "use_parallel_residual", "attention_bias"],
                 {"rotary_emb_base": [500, 250000], "rotary_pct": [0.5, 1.0], "use_parallel_residual": [True, False]}),
    "smollm3": ("SmolLM3ForCausalLM", ["head_dim", "rms_norm_eps", "sliding_window", "use_sliding_window", "attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval"],
                {"no_rope_layers": [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], "no_rope_layer_interval": [2, 3]}),
    "granite": ("GraniteForCausalLM", ["rms_norm_eps", "attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"],
                {"embedding_multiplier": [3.0], "attention_multiplier": [0.3], "residual_multiplier": [0.4], "logits_scaling": [5.0]}),
    "cohere": ("CohereForCausalLM", ["layer_norm_eps", "attention_bias", "use_qk_norm", "logit_scale"], {"use_qk_norm": [True, False], "logit_scale": [0.5]}),
    "glm": ("GlmForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias", "partial_rotary_factor"], {}),
    "glm4": ("Glm4ForCausalLM", ["head_dim", "rms_norm_eps", "attention_bias", "partial_rotary_factor"], {}),
}
NEW_SPELLING = {"llama", "qwen3", "olmo2", "phi3", "stablelm", "glm4", "cohere"}


def draw(rng, model_type):
    arch, extra, own = FAMILIES[model_type]
    config = {"architectures": [arch], "model_type": model_type, "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 24, "vocab_size": 40,
              "num_key_value_heads": 2, "pad_token_id": 0}
    if model_type in ("gemma", "gemma2", "gemma3_text", "qwen3", "glm", "glm4"):
        config["head_dim"] = 8
    if model_type == "gpt_neox":
        del config["num_key_value_heads"]
    keys = [k for k in COMMON + extra if not (model_type == "gpt_neox" and k in ("num_key_value_heads", "rope_theta"))]
    for key in rng.sample(keys, rng.randint(1, 5)):
        config[key] = rng.choice(own.get(key, POOL.get(key)))
    if model_type in NEW_SPELLING and rng.random() < 0.3:
        block = dict(config.pop("rope_scaling", None) or {"rope_type": "default"})
        if "rope_theta" in config:
            block["rope_theta"] = config.pop("rope_theta")
        config["rope_parameters"] = block
    return config


def windows(model, cfg):
    layers = cfg.num_hidden_layers
    if cfg.model_type in ("mistral", "phi3"):
        return [cfg.sliding_window] * layers
    kinds = getattr(cfg, "layer_types", None) or ["full_attention"] * layers
    return [getattr(cfg, "sliding_window", None) if k == "sliding_attention" else None for k in kinds]


def tables(model, cfg):
    base = model.gpt_neox if cfg.model_type == "gpt_neox" else model.model
    names = [None] if cfg.model_type not in ("gemma3_text", "olmo3") else sorted(set(cfg.layer_types))
    out = {}
    for length in LENGTHS:
        for name in names:
            rotary = type(base.rotary_emb)(cfg)
            extra = {} if name is None else {"layer_type": name}
            rotary(torch.zeros(1, length, 8), torch.arange(length)[None], **extra)
            inv = rotary.inv_freq if name is None else getattr(rotary, name + "_inv_freq")
            scale = rotary.attention_scaling if name is None else getattr(rotary, name + "_attention_scaling")
            out[f"{name or 'all'}@{length}"] = [float(scale)] + [float(f"{x:.9g}") for x in inv.tolist()]
    return out


def describe(config):
    data = {k: v for k, v in json.loads(json.dumps(config)).items() if k != "architectures"}
    cfg = CONFIG_MAPPING[data.pop("model_type")](**data)
    model = AutoModelForCausalLM.from_config(cfg, attn_implementation="eager").eval()
    with torch.no_grad():
        model(torch.arange(20)[None] % 40)
    tied = bool(cfg.tie_word_embeddings)
    names = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            if tied:
                continue
            name = "embed_out.weight" if cfg.model_type == "gpt_neox" else name
        if ".layers." not in name or ".layers.0." in name:
            names[name] = list(value.shape)
    layer = (model.gpt_neox if cfg.model_type == "gpt_neox" else model.model).layers[0]
    attention = layer.attention if cfg.model_type == "gpt_neox" else layer.self_attn
    eps = getattr(cfg, "rms_norm_eps", None) or getattr(cfg, "layer_norm_eps", None) or 1e-5
    act = (layer.mlp.act if hasattr(layer.mlp, "act") else getattr(layer.mlp, "act_fn", None) or layer.mlp.activation_fn)
    return {
        "tensors": names, "windows": windows(model, cfg), "tables": tables(model, cfg), "tied": tied, "eps": eps, "scaling": float(attention.scaling),
        "rotates": [int(x) for x in getattr(cfg, "no_rope_layers", [1] * cfg.num_hidden_layers)], "activation": type(act).__name__,
        "kv_heads": getattr(cfg, "num_key_value_heads", cfg.num_attention_heads),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--each", type=int, default=40)
    args = parser.parse_args()
    cases = []
    for model_type in FAMILIES:
        rng = random.Random(model_type)
        for _ in range(args.each):
            config = draw(rng, model_type)
            try:
                cases.append(dict(config=config, **describe(config)))
            except Exception as e:  # noqa: BLE001
                cases.append(dict(config=config, error=f"{type(e).__name__}: {e}"[:120].split("\n")[0]))
        print(model_type, len(cases), sum("error" in c for c in cases))
    with open(os.path.join(args.out, "hf_configs.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
