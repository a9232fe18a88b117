"""Writes bf16.safetensors and bf16.json: what transformers computes in bfloat16 on the parity checkpoints, step by step.

    python make_bf16.py --parity ../../../testdata/parity --out ../bf16

Needs torch, transformers, safetensors. The values are those of layer 0 of one pass over the longest prompt of each case, caught by
hooks: every step's input and output. cast_order.py computes each step again in float64 with one rounding where transformers rounds;
a row is stored only where no value of that row lies so near to the middle between two bfloat16 numbers that the order of a sum or the
last bit of a cosine decides it. A float32 computation with the same roundings therefore has to give the same bits.
"""

import argparse
import json
import os
import sys
from contextlib import contextmanager

import torch
from safetensors.torch import load_file, save_file

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

import cast_order as order  # noqa: E402

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

ROWS = 6

# The norms of a layer by their place, under the names each family gives them.
LLAMA = {"pre_attn": "input_layernorm", "pre_mlp": "post_attention_layernorm"}
OLMO2 = {"post_attn": "post_attention_layernorm", "post_mlp": "post_feedforward_layernorm"}
GEMMA2 = {"pre_attn": "input_layernorm", "post_attn": "post_attention_layernorm",
          "pre_mlp": "pre_feedforward_layernorm", "post_mlp": "post_feedforward_layernorm"}
GLM4 = {"pre_attn": "input_layernorm", "post_attn": "post_self_attn_layernorm",
        "pre_mlp": "post_attention_layernorm", "post_mlp": "post_mlp_layernorm"}
PLACES = {"olmo2": OLMO2, "olmo3": OLMO2, "gemma2": GEMMA2, "gemma3_text": GEMMA2, "glm4": GLM4}


def load(folder, attn):
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attn, dtype=torch.bfloat16).eval()


def logits_of(folder, attn, ids):
    """A new model for each pass: tables that depend on the length keep state between passes."""
    with torch.no_grad():
        return load(folder, attn)(torch.tensor([ids]), use_cache=False).logits[0]


@contextmanager
def patched(ns, **functions):
    old = {name: getattr(ns, name) for name in functions}
    try:
        for name, make in functions.items():
            setattr(ns, name, make(old[name]))
        yield
    finally:
        for name, fn in old.items():
            setattr(ns, name, fn)


def record(model, ids):
    """One pass. Returns the logits, inputs and outputs of the modules of layer 0 by name, and the rotation of every layer that has one."""
    seen, rotations = {}, []
    base = model.base_model
    attn = getattr(base.layers[0], "self_attn", None) or base.layers[0].attention
    ns = sys.modules[type(attn).__module__]
    pending = []

    def rotary(original):
        def call(q, k, cos, sin, *args, **kwargs):
            pending.append((q.clone(), k.clone(), cos[0].clone(), sin[0].clone()))
            return original(q, k, cos, sin, *args, **kwargs)
        return call

    def eager(original):
        def call(module, query, key, *args, **kwargs):
            if pending:
                q, k, cos, sin = pending.pop()
                width = q.shape[-1]  # some families pass only the rotated part
                q, k = torch.cat([q, query[..., width:]], -1), torch.cat([k, key[..., width:]], -1)
                rotations.append((module.layer_idx, q[0], k[0], cos, sin, query[0].clone(), key[0].clone()))
            return original(module, query, key, *args, **kwargs)
        return call

    def first(x):
        return (x[0] if isinstance(x, tuple) else x).clone()

    def hook(name):
        def call(module, args, kwargs, out):
            x = args[0] if args else kwargs.get("hidden_states")
            seen[name] = (x.clone() if torch.is_tensor(x) else None, first(out))
        return call

    modules = {f"layer.{n}" if n else "layer": m for n, m in base.layers[0].named_modules()}
    modules["embed"] = model.get_input_embeddings()
    modules["head"] = model.get_output_embeddings()
    handles = [m.register_forward_hook(hook(n), with_kwargs=True) for n, m in modules.items()]
    with patched(ns, apply_rotary_pos_emb=rotary, eager_attention_forward=eager), torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    for h in handles:
        h.remove()
    return logits, seen, rotations, modules


def by_head(x, heads, length):
    """[1,T,H*D], [1,T,H,D] or [1,H,T,D] to [H,T,D]."""
    x = x[0]
    if x.ndim == 2:
        return x.view(length, heads, -1).transpose(0, 1)
    return x if x.shape[0] == heads and x.shape[1] == length else x.transpose(0, 1)


class Case:
    """Collects a case's arrays and which rows are decided."""

    def __init__(self, name, length):
        self.name, self.length, self.arrays = name, length, {}
        self.ok = torch.ones(length, dtype=torch.bool)

    def row(self, key, x):
        """x has the rows as its second last axis."""
        self.arrays[key] = (x, True)

    def fixed(self, key, x):
        self.arrays[key] = (x, False)

    def elements(self, decided, **arrays):
        """Elementwise steps keep their decided elements, in one axis, and decide about no row."""
        for key, x in arrays.items():
            self.arrays[f"act.{key}"] = (x, decided)

    def check(self, what, got, step):
        """Holds HF's values against the recomputed step on its decided rows."""
        want, decided = step
        rows = decided.all(-1)
        while rows.ndim > 1:
            rows = rows.all(0)
        self.ok &= rows
        same = (got == want) | ~rows[:, None]
        assert same.all(), (self.name, what, int((~same).sum()))

    def finish(self):
        rows = torch.nonzero(self.ok)[:, 0].tolist()[-ROWS:]
        assert len(rows) == ROWS, (self.name, "decided rows", rows)
        out = {}
        for k, (x, how) in self.arrays.items():
            if torch.is_tensor(how):
                x = x[rows][how[rows]]
            elif how:
                x = x[..., rows, :]
            out[f"{self.name}.{k}"] = x.contiguous()
        return rows, out


def norm(case, key, module, kind, x, y):
    weights = order.norm_weights(module)
    case.check(key, y, order.norm(kind, x, *weights, order.epsilon(module)))
    case.row(f"{key}.out", y)
    for name, w in zip(("weight", "bias"), weights):
        if w is not None:
            case.fixed(f"{key}.{name}", w)


def layer_zero(case, model, seen, modules):
    cfg, kind = model.config, order.norm_kind(model)
    x, out = seen["layer"][0][0], seen["layer"][1][0]
    unscaled = modules["embed"].weight.detach()[seen["embed"][0][0]]
    assert (x == order.embedding_scale(cfg, unscaled)).all(), (case.name, "x")
    for key, value in (("embed", unscaled), ("x", x), ("out", out)):
        case.row(key, value)
    names = PLACES.get(cfg.model_type, LLAMA)
    place = {p: seen[f"layer.{n}"] for p, n in names.items() if f"layer.{n}" in seen}
    for p, (a, b) in place.items():
        norm(case, p, modules[f"layer.{names[p]}"], kind, a[0], b[0])
    attn = seen.get("layer.self_attn", seen.get("layer.attention"))[1][0]
    mlp = seen["layer.mlp"][1][0]
    case.row("attn", attn)
    case.row("mlp", mlp)
    added = [place[p][1][0] if p in place else raw for p, raw in (("post_attn", attn), ("post_mlp", mlp))]
    mid, want = order.residual(cfg, x, *added)
    assert (out == want).all(), (case.name, "out")
    if mid is not None:
        case.row("mid", mid)
        if "pre_mlp" in place:
            assert (mid == place["pre_mlp"][0][0]).all(), (case.name, "mid")
    activation(case, cfg, seen)


def activation(case, cfg, seen):
    down = seen.get("layer.mlp.down_proj", seen.get("layer.mlp.dense_4h_to_h"))[0][0]
    if "layer.mlp.gate_up_proj" in seen:
        gate, up = seen["layer.mlp.gate_up_proj"][1][0].chunk(2, -1)
    elif "layer.mlp.gate_proj" in seen:
        gate, up = seen["layer.mlp.gate_proj"][1][0], seen["layer.mlp.up_proj"][1][0]
    else:
        gate, up = None, seen["layer.mlp.dense_h_to_4h"][1][0]
    want, decided = order.activation(cfg, gate, up)
    assert ((down == want) | ~decided).all(), (case.name, "act")
    case.elements(decided, up=up, out=down, **({} if gate is None else {"gate": gate}))


def rotation(case, model, rotations, layers, seen, modules):
    cfg, done = model.config, set()
    interleaved = cfg.model_type in ("cohere", "glm", "glm4")
    stored = []
    for layer, q, k, cos, sin, q_rot, k_rot in rotations:
        if layers[layer]["rope"] in done:
            continue
        done.add(layers[layer]["rope"])
        stored.append(layer)
        pick = slice(0, None, 2) if cfg.model_type == "cohere" else slice(0, cos.shape[-1] // 2)
        cos, sin = cos[:, pick], sin[:, pick]
        at = f"layer{layer}."
        case.ok &= order.table_decided(model, layers[layer]["rope"], cos, sin)
        for n, pre, rot in (("q", q, q_rot), ("k", k, k_rot)):
            case.check(at + n, rot, order.rotate(pre, cos, sin, interleaved, cfg.model_type))
            case.row(f"{at}{n}_pre", pre)
            case.row(f"{at}{n}_rot", rot)
        case.row(at + "cos", cos)
        case.row(at + "sin", sin)
        if layer == 0:
            for n, pre in (("q", q), ("k", k)):
                query_key_norm(case, model, n, pre, seen, modules)
    return stored


def query_key_norm(case, model, n, pre, seen, modules):
    for name in (f"layer.self_attn.{n}_norm", f"layer.self_attn.{n}_layernorm"):
        if name not in seen:
            continue
        x, y = (by_head(t, pre.shape[0], case.length) for t in seen[name])
        assert (y == pre).all()
        weights = order.norm_weights(modules[name])
        given = x, y
        if weights[0].shape == (pre.shape[0] * pre.shape[2],):  # one norm over all heads
            given = [t.transpose(0, 1).reshape(case.length, -1) for t in (x, y)]
        case.check(n + "_norm", given[1], order.norm(order.norm_kind(model), given[0], *weights, order.epsilon(modules[name])))
        case.row(f"layer0.{n}_norm.in", x)
        case.fixed(f"layer0.{n}_norm.weight", weights[0].squeeze())


def make(name, folder):
    with open(os.path.join(folder, "golden.json")) as f:
        golden = json.load(f)
    float32 = load_file(os.path.join(folder, "golden.safetensors"))
    prompts = [s["ids"] for s in golden["sequences"]]
    model = load(folder, "eager")
    for n, p in model.named_parameters():
        assert p.dtype == torch.bfloat16, (name, n)
    ids = prompts[-1]
    logits, seen, rotations, modules = record(model, ids)
    case = Case(name, len(ids))
    layer_zero(case, model, seen, modules)
    stored = rotation(case, model, rotations, golden["layers"], seen, modules)
    raw = seen["head"][1][0]
    case.check("head", logits, order.head(model.config, raw))
    if not (raw == logits).all():
        case.row("head.raw", raw)
        case.row("head.out", logits)
    rows, arrays = case.finish()
    squares, count = {"eager": 0.0}, 0
    if model._supports_sdpa:
        squares["sdpa"] = 0.0
    worst = 0.0
    for i, seq in enumerate(prompts):
        exact = float32[f"seq{i}.logits"]
        count += exact.numel()
        for attn in squares:
            half = logits_of(folder, attn, seq)
            assert half.dtype == torch.bfloat16
            squares[attn] += float((half.double() - exact.double()).pow(2).sum())
            if attn == "eager":
                arrays[f"{name}.seq{i}.logits"] = half.contiguous()
                worst = max(worst, float((half.float() - exact).abs().max()))
    return {"model_type": golden["model_type"], "rows": rows, "ids": ids, "rotation_layers": stored,
            "rms": {k: (v / count) ** 0.5 for k, v in squares.items()}, "max": worst}, arrays


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--parity", required=True)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    cases, arrays = {}, {}
    for name in sorted(os.listdir(a.parity)):
        folder = os.path.join(a.parity, name)
        if not os.path.exists(os.path.join(folder, "golden.json")) or name == "config_spellings":
            continue
        cases[name], found = make(name, folder)
        arrays.update({k: v.detach().clone() for k, v in found.items()})
        print(name, cases[name]["rows"], {k: round(v, 4) for k, v in cases[name]["rms"].items()}, flush=True)
    save_file(arrays, os.path.join(a.out, "bf16.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(a.out, "bf16.json"), "w") as f:
        versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
        f.write("{" + ", ".join(f'"{k}": "{v}"' for k, v in versions.items()) + ', "cases": {\n')
        f.write(",\n".join(f'"{k}": {json.dumps(v)}' for k, v in cases.items()) + "\n}}\n")


if __name__ == "__main__":
    main()
