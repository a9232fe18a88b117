"""The steps between the matrix products in bfloat16, computed in float64 with a rounding where transformers rounds.

Each step returns its values and, per value, whether the rounding is decided: whether a result off by a few float32 units would round
to the same bfloat16 number.
"""

import math

import torch

BF16 = torch.bfloat16


def rounded(v, terms, slack=2e-6):
    """v float64, terms the size of what was added up to it."""
    off = slack * terms
    return v.to(BF16), (v - off).to(BF16) == (v + off).to(BF16)


def exactly(v):
    """v is exact, or computed by one float32 operation, which is the same everywhere."""
    return v.to(torch.float32).to(BF16)


def norm_kind(model):
    name = type(model.base_model.norm if hasattr(model.base_model, "norm") else model.base_model.final_layer_norm).__name__
    if name == "OlmoLayerNorm":
        return "layer_plain"
    if "RMS" not in name:
        return "layer"
    if name.startswith("Gemma"):
        return "rms_offset"
    return "rms_float" if name in ("Olmo2RMSNorm", "Olmo3RMSNorm") else "rms"


def norm_weights(module):
    if hasattr(module, "norms"):  # one a head
        return torch.stack([n.weight.detach() for n in module.norms])[:, None], None
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    return (None if weight is None else weight.detach()), (None if bias is None else bias.detach())


def epsilon(module):
    if hasattr(module, "norms"):
        return module.norms[0].eps
    return getattr(module, "variance_epsilon", getattr(module, "eps", 1e-5))


def norm(kind, x, weight, bias, eps):
    x = x.double()
    if kind.startswith("layer"):
        mean = x.mean(-1, keepdim=True)
        scale = ((x - mean).pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        y, terms = (x - mean) * scale, (x.abs() + mean.abs()) * scale
        if weight is not None:
            y, terms = y * weight.double(), terms * weight.double().abs()
        if bias is not None:
            y, terms = y + bias.double(), terms + bias.double().abs()
        return rounded(y, terms)
    y = x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    if kind == "rms":
        y, decided = rounded(y, y.abs())
        return exactly(y.double() * weight.double()), decided
    y = y * (weight.double() + (1 if kind == "rms_offset" else 0))
    return rounded(y, y.abs())


def rotate(x, cos, sin, interleaved, model_type):
    """x [H,T,D], cos and sin [T,planes]. The result has the rows of x."""
    planes = cos.shape[-1]
    if interleaved:
        a, b = x[..., 0:2 * planes:2], x[..., 1:2 * planes:2]
    else:
        a, b = x[..., :planes], x[..., planes:2 * planes]
    ac, bs, bc, as_ = (u.double() * v.double() for u, v in ((a, cos), (b, sin), (b, cos), (a, sin)))
    exact = lambda t: torch.ones_like(t, dtype=torch.bool)  # noqa: E731
    if model_type == "cohere":  # float32, where the products of bfloat16 numbers are exact
        ra, rb = exactly(ac - bs), exactly(bc + as_)
        da, db = exact(ra), exact(rb)
    elif model_type in ("olmo", "olmo2", "olmo3"):
        (ra, da), (rb, db) = rounded(ac - bs, ac.abs() + bs.abs()), rounded(bc + as_, bc.abs() + as_.abs())
    else:
        ra = exactly(exactly(ac).double() - exactly(bs).double())
        rb = exactly(exactly(bc).double() + exactly(as_).double())
        da, db = exact(ra), exact(rb)
    pair = (lambda u, v: torch.stack((u, v), -1).flatten(-2)) if interleaved else (lambda u, v: torch.cat((u, v), -1))
    rest = x[..., 2 * planes:]
    return torch.cat((pair(ra, rb), rest), -1), torch.cat((pair(da, db), torch.ones_like(rest, dtype=torch.bool)), -1)


def table_decided(model, rope, cos, sin):
    """Rows [T] whose cosines and sines round the same way however the last float32 bits of frequency and function fall."""
    rot = model.base_model.rotary_emb
    if rope == "all":
        w, scale = rot.inv_freq, rot.attention_scaling
    else:
        w, scale = getattr(rot, f"{rope}_inv_freq"), getattr(rot, f"{rope}_attention_scaling")
    assert w.dtype == torch.float32
    angle = (torch.arange(cos.shape[0]).float()[:, None] * w.float()[None]).double()
    ok = torch.ones(cos.shape[0], dtype=torch.bool)
    c, s = angle.cos() * scale, angle.sin() * scale
    for got, exact, slope in ((cos, c, s), (sin, s, c)):
        if got.dtype == torch.float32:
            assert (got.double() - exact).abs().max() < 1e-6
            continue
        want, decided = rounded(exact, angle * slope.abs() + exact.abs(), 2.4e-7)
        decided |= (angle == 0)
        assert ((got == want) | ~decided).all()
        ok &= decided.all(-1)
    return ok


def residual(cfg, x, attn, mlp):
    """The residual stream after the attention, None in a parallel layer, and after the layer."""
    x, attn, mlp = x.double(), attn.double(), mlp.double()
    if cfg.model_type == "gpt_neox" and cfg.use_parallel_residual:
        return None, exactly(exactly(mlp + attn).double() + x)
    if cfg.model_type == "cohere" or getattr(cfg, "use_parallel_residual", False):
        return None, exactly(exactly(x + attn).double() + mlp)
    if cfg.model_type == "granite":  # a Python number keeps float32 precision beside a bfloat16 tensor
        m = float(torch.tensor(cfg.residual_multiplier, dtype=torch.float32))
        attn, mlp = exactly(attn * m).double(), exactly(mlp * m).double()
    mid = exactly(x + attn)
    return mid, exactly(mid.double() + mlp)


def embedding_scale(cfg, e):
    if cfg.model_type.startswith("gemma"):
        return exactly(e.double() * torch.tensor(cfg.hidden_size**0.5).to(BF16).double())
    if cfg.model_type == "granite":
        return exactly(e.double() * float(torch.tensor(cfg.embedding_multiplier, dtype=torch.float32)))
    return e


def activation(cfg, gate, up):
    name = getattr(cfg, "hidden_activation", None) or cfg.hidden_act
    h = (up if gate is None else gate).double()
    if name == "silu":
        v = h / (1 + (-h).exp())
    elif name == "gelu" and not cfg.model_type.startswith("gemma"):
        v = h * 0.5 * (1 + torch.erf(h / math.sqrt(2)))
    else:
        v = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    v, decided = rounded(v, v.abs() + 0.1 * h.abs())
    return (v if gate is None else exactly(v.double() * up.double())), decided


def head(cfg, raw):
    v, decided = raw.double(), torch.ones_like(raw, dtype=torch.bool)
    if cfg.model_type == "granite":
        return exactly((raw.float() / cfg.logits_scaling).double()), decided
    if cfg.model_type == "cohere":
        return exactly(v * float(torch.tensor(cfg.logit_scale, dtype=torch.float32))), decided
    cap = getattr(cfg, "final_logit_softcapping", None)
    if cap:
        t, decided = rounded(exactly(v / cap).double().tanh(), exactly(v / cap).double().tanh().abs())
        return exactly(t.double() * cap), decided
    return raw, decided
