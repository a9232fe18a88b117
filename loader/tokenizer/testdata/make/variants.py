"""Computes the digests of ../variants.json with Hugging Face's tokenizers library.

    python variants.py           # adds digests to the variants that have none
    python variants.py --check   # computes all of them and names those that differ

A variant is a tiny tokenizer with changes: `top` and `model` replace keys of the file and of its model, `drop` takes tokens out of the
vocabulary, `added` is appended to added_tokens. Made with tokenizers 0.23.3; the digests of 0.22.2 are the same.
"""

import hashlib
import json
import pathlib
import sys

from tokenizers import Tokenizer

data = pathlib.Path(__file__).parent.parent


def load(variant):
    file = json.loads((data / "tiny" / (variant["base"] + ".tokenizer.json")).read_text())
    file.update(variant["top"])
    file["model"].update(variant["model"])
    for token in variant.get("drop", []):
        del file["model"]["vocab"][token]
    file["added_tokens"] += variant["added"] or []
    return Tokenizer.from_str(json.dumps(file))


def digest(tokenizer, text):
    plain = tokenizer.encode(text, add_special_tokens=False)
    special = tokenizer.encode(text, add_special_tokens=True)
    parts = [plain.ids, [n for pair in plain.offsets for n in pair], special.ids]
    line = "|".join(",".join(map(str, p)) for p in parts)
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def main():
    check = "--check" in sys.argv
    cases = json.loads((data / "cases.json").read_text())
    variants = json.loads((data / "variants.json").read_text())
    for v in variants:
        if v.get("digests") and not check:
            continue
        tokenizer = load(v)
        digests = {c["name"]: digest(tokenizer, c["text"]) for c in cases}
        if check:
            wrong = [n for n in digests if digests[n] != v["digests"][n]]
            print(v["name"], "ok" if not wrong else f"differs: {wrong}")
        v["digests"] = v.get("digests") or digests
    if not check:
        lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in variants)
        (data / "variants.json").write_text("[\n" + lines + "]")


main()
