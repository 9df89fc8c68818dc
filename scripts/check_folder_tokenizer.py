#!/usr/bin/env python3
"""Checks `ropeway tokenize` with folders in Hugging Face's format against `tokenizers` and sentencepiece, which have
the very files that the folders have: tokenizer.json, and tokenizer.model.

The vocabularies are those of GGUF files; `tokenizers` itself writes them as tokenizer.json, with a template that puts
the special tokens around a text; SentencePiece's in each way in which models' files write spaces. Compared are the ids
of the texts of check_tokenizer.py, 2,000 random ones among them. Ends with exit status 1 at any difference.

    check_folder_tokenizer.py --ropeway PATH --folder FOLDER --model FILE.gguf [--model FILE.gguf ...]

FOLDER: a model in Hugging Face's format, whose weights do not matter.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from tokenizers import processors

import tokenizer_references as references
from check_tokenizer import TEXTS, random_texts, run
from gguf_metadata import GgufReader


class Folder:
    """A folder with the weights of another one and a tokenizer of its own."""

    def __init__(self, ropeway, base, work, name):
        self.ropeway, self.name, self.wrong = ropeway, name, 0
        self.path = work / name
        self.path.mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(base / file, self.path)

    def compare(self, what, texts, encode, same=None, **options):
        """`same`: whether two lists of ids are as good."""
        lines = [{"text": text, **options} for text in texts]
        for text, answer in zip(texts, run(self.ropeway, str(self.path), lines)):
            expected = encode(text)
            if answer["ids"] == expected or (same is not None and same(answer["ids"], expected)):
                continue
            self.wrong += 1
            if self.wrong <= 10:
                print(f"  {what}: {text!r}\n    expected: {expected}\n    ropeway:  {answer['ids']}")
        print(f"{self.name}: {what} on {len(texts)} texts: {self.wrong} differences")


def around(tokenizer, fields):
    """Has the tokenizer put the special tokens around a text, by a template as the models' own files have it."""
    special = {}
    if fields.add_bos:
        special[fields.tokens[fields.bos]] = fields.bos
    if fields.add_eos:
        special[fields.tokens[fields.eos]] = fields.eos
    if not special:
        return
    single = [fields.tokens[fields.bos]] if fields.add_bos else []
    single += ["$A"] + ([fields.tokens[fields.eos]] if fields.add_eos else [])
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=list(special.items()))


def config_of(fields):
    """tokenizer_config.json."""
    named = {"bos_token": fields.bos, "eos_token": fields.eos, "unk_token": fields.unk}
    return json.dumps({"add_bos_token": bool(fields.add_bos), "add_eos_token": bool(fields.add_eos),
                       **{key: fields.tokens[i] for key, i in named.items() if i is not None}})


def spellings(fields):
    """How files with the vocabulary write spaces: a name, and what sets it in a tokenizer."""
    if fields.model == "gpt2":
        return {"": lambda tokenizer: None}
    if fields.model == "gemma4":
        return {"": references.replace_and_split}
    ways = {"": lambda tokenizer: None}
    if fields.architecture == "llama":
        for scheme in ("first", "always", "never"):
            ways[f"-metaspace-{scheme}"] = references.metaspace(scheme, split=False)
        ways["-metaspace-words"] = references.metaspace("first", split=True)
        ways["-replace-split"] = references.replace_and_split
    return ways


def check_json(arguments, work, name, fields, texts):
    if fields.model == "t5":
        return 0
    wrong = 0
    for spelling, write in spellings(fields).items():
        byte_level = fields.model == "gpt2"
        make = references.byte_level_tokenizer if byte_level else references.sentencepiece_bpe_tokenizer
        tokenizer = make(fields)
        write(tokenizer)
        around(tokenizer, fields)
        folder = Folder(arguments.ropeway, arguments.folder, work, name + spelling)
        tokenizer.save(str(folder.path / "tokenizer.json"))
        (folder.path / "tokenizer_config.json").write_text(config_of(fields))
        folder.compare("tokenizers", texts, lambda text, tokenizer=tokenizer: tokenizer.encode(text).ids)
        wrong += folder.wrong
    return wrong


def check_model(arguments, work, name, fields, texts):
    if fields.model not in ("llama", "t5"):
        return 0
    folder = Folder(arguments.ropeway, arguments.folder, work, name + "-model")
    (folder.path / "tokenizer.model").write_bytes(references.sentencepiece_file(fields))
    (folder.path / "tokenizer_config.json").write_text(config_of(fields))
    folder.compare("sentencepiece", texts, references.sentencepiece_model(fields),
                   same=references.unigram_ties(fields) if fields.model == "t5" else None,
                   add_special=False, parse_special=False)
    return folder.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ropeway", required=True, help="the program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="a model in Hugging Face's format")
    parser.add_argument("--model", required=True, action="append", help="a GGUF file; repeatable")
    arguments = parser.parse_args()
    texts = TEXTS + random_texts(2000)
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        for model in arguments.model:
            path = pathlib.Path(model)
            fields = references.Fields(GgufReader(path.read_bytes()).metadata())
            wrong += check_json(arguments, pathlib.Path(work), path.stem, fields, texts)
            wrong += check_model(arguments, pathlib.Path(work), path.stem, fields, texts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
