"""Writes families.safetensors: the logits that transformers computes, in float32, for the checkpoints of families_test.go.

    go test loader/loadertest -run TestFamilies -checkpoints DIR
    python make_families.py --checkpoints DIR --out ../families.safetensors

One array for each family and change, [vocab], the last row of the prompt.
"""

import argparse
import glob
import os

import torch
from safetensors.torch import save_file

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

PROMPT = [7, 19, 3, 42, 7, 19, 55, 0, 63, 11, 30, 7, 28, 60]


def logits(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), (folder, info)
    with torch.no_grad():
        return model.eval()(torch.tensor([PROMPT]), use_cache=False).logits[0, -1].clone()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--checkpoints", required=True)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    arrays = {}
    for path in sorted(glob.glob(os.path.join(a.checkpoints, "*", "*", "config.json"))):
        folder = os.path.dirname(path)
        name = os.path.relpath(folder, a.checkpoints)
        if name.startswith("Gemma3ForConditionalGeneration"):
            continue
        arrays[name] = logits(folder)
        print(name, float(arrays[name].std()), flush=True)
    save_file(arrays, a.out, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
