"""Writes NAME.golden.json beside NAME.tokenizer.json files: what Hugging Face's tokenizers library makes of ../cases.json.

    python golden.py FILE.tokenizer.json...

The goldens of tiny/ and real/ are of tokenizers 0.22.2, that of gemma2 of 0.23.3. Between the two, ids and offsets are the same; 0.23.3
decodes an added token with `normalized` to its normalized form (tiny_llama2_normtrue, tiny_addedflags: " <s>" for "<s>").
"""

import base64
import hashlib
import json
import pathlib
import sys

import tokenizers

DATA = pathlib.Path(__file__).parent.parent

BASE64 = base64.b64encode(b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(470))).decode()[:20000]
LONG = [
    ("a20000", "'a'*20000", "a" * 20000),
    ("b64_20k", "base64(sha256(str(i)) for i in range(470))[:20000]", BASE64),
    ("space20000", "' '*20000", " " * 20000),
    ("nl20000", "'\\n'*20000", "\n" * 20000),
    ("digits20000", "'1234567890'*2000", "1234567890" * 2000),
    ("emoji5000", "U+1F600*5000", "\U0001F600" * 5000),
    ("cjk6000", "'中文字'*2000", "中文字" * 2000),
    ("abab20000", "'ab'*10000", "ab" * 10000),
]

DECODED = ["single_emoji", "emoji_zwj", "cjk", "latin", "bytetok_literal", "needle", "combining", "sent_special", "chatml"]

NEEDLES = [
    ("Intro text. The secret code is amber-tiger-4821. More text.", "amber-tiger-4821"),
    ("Intro text. The secret code is amber-tiger-4821. More text.", " amber-tiger-4821"),
    ("前文。秘密口令是琥珀虎四八二一。后文。", "琥珀虎四八二一"),
    ("🔑 key=🦊🦊-77 🔑", "🦊🦊-77"),
    ("The word is re\u0301sume\u0301-42, ok.", "re\u0301sume\u0301-42"),
    ("x <s> needle 123456 </s> y", "needle 123456"),
    ("tabs\t\tneedle\n\nnext", "needle"),
    ("caféneedle™", "needle"),
]


def case(tok, name, text):
    plain = tok.encode(text, add_special_tokens=False)
    out = {
        "name": name,
        "ids": plain.ids,
        "offsets": [n for pair in plain.offsets for n in pair],
        "ids_special": tok.encode(text, add_special_tokens=True).ids,
    }
    decoded = tok.decode(plain.ids, skip_special_tokens=False) if plain.ids else ""
    skipped = tok.decode(plain.ids, skip_special_tokens=True) if plain.ids else ""
    if decoded != text:
        out["decoded"] = decoded
    if skipped != decoded:
        out["decoded_skip"] = skipped
    return out


def long_word(tok, name, gen, text):
    ids = tok.encode(text, add_special_tokens=False).ids
    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    return {"name": name, "gen": gen, "n": len(ids), "sha256": digest, "head": ids[:16], "tail": ids[-16:]}


def partial_decodes(tok, cases):
    def text(ids):
        return tok.decode(ids, skip_special_tokens=False)

    out = []
    for name in DECODED:
        ids = next(c["ids"] for c in cases if c["name"] == name)
        prefix = [text(ids[:k]) for k in range(1, min(len(ids), 14) + 1)]
        suffix = [text(ids[k:]) for k in range(1, min(len(ids), 10))]
        out.append({"name": name, "prefix": prefix, "suffix": suffix})
    backwards = next(c["ids"] for c in cases if c["name"] == "emoji_zwj")[:10][::-1]
    return out + [{"name": "reversed_emoji_zwj", "ids": backwards, "decoded": text(backwards)}]


def needle(tok, text, word):
    start = text.index(word)
    end = start + len(word)
    enc = tok.encode(text, add_special_tokens=True)
    hit = [i for i, (s, e) in enumerate(enc.offsets) if not enc.special_tokens_mask[i] and s < end and e > start]
    return {
        "text": text, "needle": word, "char_start": start, "char_end": end, "ids_special": enc.ids, "offsets": enc.offsets,
        "special_mask": enc.special_tokens_mask, "tok_start": hit[0], "tok_end": hit[-1] + 1,
    }


def main():
    cases = json.loads((DATA / "cases.json").read_text())
    for path in map(pathlib.Path, sys.argv[1:]):
        tok = tokenizers.Tokenizer.from_file(str(path))
        golden = {
            "tokenizer": path.name.removesuffix(".tokenizer.json"),
            "reference": f"huggingface/tokenizers {tokenizers.__version__}",
            "cases": [case(tok, c["name"], c["text"]) for c in cases],
            "long": [long_word(tok, *long) for long in LONG],
        }
        golden["decode"] = partial_decodes(tok, golden["cases"])
        golden["needles"] = [needle(tok, *n) for n in NEEDLES]
        out = path.with_name(path.name.replace(".tokenizer.json", ".golden.json"))
        out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")))
        print(out)


main()
