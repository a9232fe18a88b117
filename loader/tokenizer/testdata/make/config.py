"""Writes ../config.json: what transformers makes of tokenizer_config.json files beside tiny tokenizers. Made with transformers 5.24.0."""

import json
import pathlib
import shutil
import tempfile

from transformers import AutoTokenizer

DATA = pathlib.Path(__file__).parent.parent
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
FLAGS = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}

CASES = [
    ("tiny_llama2", NAMES),
    ("tiny_llama2", NAMES | {"add_bos_token": False}),
    ("tiny_llama2", NAMES | {"add_bos_token": True, "add_eos_token": True}),
    ("tiny_olmo2", {"bos_token": "<|endoftext|>", "add_bos_token": True}),
    ("tiny_olmo2", {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_bos_token": True, "add_eos_token": True}),
    ("tiny_llama3", {"bos_token": "<|begin_of_text|>", "add_bos_token": False}),
    ("tiny_gpt2", {"eos_token": "the"}),
    ("tiny_gpt2", {"eos_token": {"content": "the", "__type": "AddedToken"} | FLAGS | {"lstrip": True, "special": False}}),
    ("tiny_gpt2", {"pad_token": "he", "eos_token": "the"}),
    ("tiny_llama2", NAMES | {"added_tokens_decoder": {"1": FLAGS | {"content": "<s>", "rstrip": True}}}),
    ("tiny_llama2", NAMES | {"added_tokens_decoder": {"1088": FLAGS | {"content": "<tool>", "special": False}}}),
]

TEXT = "the other <s>  then <tool>the</s> he"


def main():
    out = []
    for base, config in CASES:
        folder = pathlib.Path(tempfile.mkdtemp())
        shutil.copy(DATA / "tiny" / (base + ".tokenizer.json"), folder / "tokenizer.json")
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}))
        tok = AutoTokenizer.from_pretrained(folder)
        enc = tok(TEXT, add_special_tokens=True, return_offsets_mapping=True)
        out.append({
            "base": base, "config": config, "text": TEXT, "ids": tok.encode(TEXT, add_special_tokens=False),
            "ids_special": enc["input_ids"], "offsets": enc["offset_mapping"], "skip": tok.decode(enc["input_ids"], skip_special_tokens=True),
        })
        shutil.rmtree(folder)
    (DATA / "config.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


main()
