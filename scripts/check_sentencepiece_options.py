#!/usr/bin/env python3
"""Checks `ropeway tokenize` with a tokenizer.model against sentencepiece, for models that are trained with each of the
options that change ids, BPE and unigram ones: small models of a small corpus, random texts. What Ropeway does not have
must be rejected by name. Ends with exit status 1 at any difference.

    check_sentencepiece_options.py --ropeway PATH --folder FOLDER [--texts N]

FOLDER: a model in Hugging Face's format, whose weights do not matter.
"""
import argparse
import base64
import io
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import sentencepiece

from check_folder_tokenizer import Folder
from check_tokenizer import run
from tokenizer_references import NORMAL, SPACE, UNUSED, USER_DEFINED, message

WORDS = ("the sea is wide and cold they see their ships on it when she sells shells by the shore 2024 was a year of "
         "rain 12 345 été über naïve ﬁnd ﬂow ① Ａｂｃ 日本語 東京 мир мира привет hello world print return").split()
SYMBOLS = ["<tool>", "<tool", "ab", SPACE + SPACE, "é", "the sea", "\n\n", "Ａ", "sea" + SPACE, "日本"]
PARTS = [
    "the", "sea", "ship", "shells", "wide", " ", " ", " ", "  ", "   ", "\t", "\n", "\n\n", SPACE,
    SPACE + SPACE, "a", "b", "ab", "abab", "e", "é", "e\u0301", "ﬁ", "ﬂ", "①", "Ａ", "Ａｂ", "㎈", "…",
    "½", "ǆ", "ﷺ", "\u3000", "\u00a0", "\u200b", "\u00ad", "\ufeff", "\u0000", "\u0001", "\x7f",
    "¨", "İ", "ß", "ÉTÉ", "THE", "日本", "日", "語", "東京", "мир", "☃", "😀", "👩\u200d👧", "한",
    "\u1112\u1161\u11ab", "12", "345", "2024", "<tool>", "<tool", "the sea", "<s>", "</s>",
    "<unk>", "<ctrl>", "<0x41>", "?", "!", ".", "<word> ", "zz", "qq", "q", "\ufffd", "\u0340",
    "が", "か\u3099",
]
BROKEN = [b"\xff", b"\xe2\x96", b"\x81", b"\xc3", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80"]


def corpus():
    rng = random.Random(5)
    lines = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 9))) for _ in range(400)]
    lines += ["the  sea   is", "a\tb", "  lead", "trail  ", "ab abab zz"]
    return lines


def random_texts(count):
    rng = random.Random(11)
    texts = []
    for _ in range(count):
        parts = [rng.choice(PARTS).encode() for _ in range(rng.randint(0, 10))]
        if rng.random() < 0.2:
            parts.insert(rng.randint(0, len(parts)), rng.choice(BROKEN))
        texts.append(b"".join(parts))
    return texts


def fields_of(data):
    """The fields of a message: number, and value as it stands there."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    at = 0
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at:at + size]
            at += size


class Piece:
    def __init__(self, data):
        fields = dict(fields_of(data))
        self.text, self.type = fields[1].decode(), fields.get(3, NORMAL)
        self.score, = struct.unpack("<f", fields.get(2, bytes(4)))

    def bytes(self):
        return message(1, message(1, self.text) + message(2, self.score) + message(3, self.type))


def pieces_of(model):
    return [Piece(value) for number, value in fields_of(model) if number == 1]


def with_pieces(model, pieces):
    return b"".join(piece.bytes() for piece in pieces) + b"".join(
        message(number, value) for number, value in fields_of(model) if number != 1)


def train(kind, **options):
    """The bytes of a model."""
    settings = {"model_type": kind, "vocab_size": 160, "hard_vocab_limit": False, "character_coverage": 0.99,
                "num_threads": 1, "minloglevel": 2, "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False, **options}
    if settings.get("byte_fallback"):
        settings["vocab_size"] += 256
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=out, **settings)
    return out.getvalue()


def trained_with():
    """The options of each model."""
    symbols = {"user_defined_symbols": SYMBOLS}
    return {
        "plain": {},
        "remove-extra": {"remove_extra_whitespaces": True},
        "no-prefix": {"add_dummy_prefix": False},
        "no-prefix-remove": {"add_dummy_prefix": False, "remove_extra_whitespaces": True},
        "nfkc": {"normalization_rule_name": "nfkc"},
        "nmt-nfkc": {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
        "nfkc-cf": {"normalization_rule_name": "nfkc_cf", "byte_fallback": True},
        "nmt-nfkc-cf": {"normalization_rule_name": "nmt_nfkc_cf"},
        "symbols": symbols,
        "symbols-remove": {**symbols, "remove_extra_whitespaces": True, "byte_fallback": True},
        "symbols-nfkc": {**symbols, "normalization_rule_name": "nmt_nfkc", "add_dummy_prefix": False},
        "bytes": {"byte_fallback": True},
        "control": {"control_symbols": ["<ctrl>", "<word>"], "unk_id": 2, "bos_id": -1, "eos_id": 0, "unk_piece": "?!"},
        "spaces-within": {"split_by_whitespace": False, "allow_whitespace_only_pieces": True},
        "digits": {"split_digits": True, "split_by_number": False, "max_sentencepiece_length": 4},
        "suffix-without": {"treat_whitespace_as_suffix": True, "add_dummy_prefix": False},
    }


def edited(kind):
    """Models that training does not make."""
    mapped = train(kind, remove_extra_whitespaces=True)
    # To nothing, to spaces, to several words.
    rules = {"q": "", "b": " ", "zz": "  a  b ", "\t": SPACE, "é": "e"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as tsv:
        for text, to in rules.items():
            tsv.write("\t".join(" ".join(f"{ord(c):X}" for c in each) for each in (text, to)) + "\n")
        tsv.flush()
        own = {"normalization_rule_tsv": tsv.name}
        models = {"own-rules": train(kind, **own)}
        models["own-rules-remove"] = train(kind, remove_extra_whitespaces=True, **own)
    if kind == "unigram":
        models["without-space"] = without_space(mapped)
    pieces = pieces_of(mapped)
    # In BPE those that no two pieces make up.
    for i, piece in enumerate(piece for piece in pieces if piece.type == NORMAL and len(piece.text) > 2):
        if i % 5 == 0:
            piece.type = UNUSED
            piece.text = piece.text if kind == "unigram" else f"[PAD{i}]"
    models["unused"] = with_pieces(mapped, pieces)
    return models


def without_space(model):
    """The model without the piece of a space alone."""
    pieces = pieces_of(model)
    for piece in pieces:
        piece.text = "\u2603\u2603" if piece.text == SPACE else piece.text
    return with_pieces(model, pieces)


def rejected(kind):
    """Models that are not supported, and what the message must name."""
    plain = train(kind)
    pieces = pieces_of(plain)
    next(piece for piece in pieces if piece.type == NORMAL).type = UNUSED
    mapped = dict(fields_of(train(kind, normalization_rule_name="nfkc")))
    char_map = dict(fields_of(mapped[3]))[2]
    # A message that comes again is one with the first.
    models = {
        "treat_whitespace_as_suffix": train(kind, treat_whitespace_as_suffix=True),
        "escape_whitespaces": plain + message(3, message(5, False)),
        "denormalizer_spec": plain + message(5, message(2, char_map)),
        "model_type 3": plain + message(2, message(3, 3)),
        "model_type 4": plain + message(2, message(3, 4)),
    }
    if kind == "bpe":
        models["which is unused"] = with_pieces(plain, pieces)
        models["with a character that is not an ordinary piece"] = without_space(plain)
    return models


def ties(model):
    """Whether two lists of a unigram model's ids are as good: sentencepiece adds up in single precision."""
    pieces = pieces_of(model)

    def known(ids):
        """What is no unknown text: its gain, and how much it is."""
        found = [pieces[i] for i in ids if pieces[i].type in (NORMAL, USER_DEFINED)]
        gain = sum(piece.score if piece.type == NORMAL else 0.1 * (len(piece.text.encode()) - 1) for piece in found)
        return gain, sum(len(piece.text) for piece in found)

    def same(a, b):
        (gain, size), (other, other_size) = known(a), known(b)
        return size == other_size and abs(gain - other) < 1e-4

    return same


def compare(arguments, work, name, model, texts):
    folder = Folder(arguments.ropeway, arguments.folder, work, name)
    (folder.path / "tokenizer.model").write_bytes(model)
    (folder.path / "tokenizer_config.json").write_text("{}")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [{"base64": base64.b64encode(text).decode(), "add_special": False, "parse_special": False}
             for text in texts]
    same = ties(model) if name.startswith("unigram") else None
    wrong = tied = 0
    for text, answer in zip(texts, run(arguments.ropeway, str(folder.path), lines)):
        expected = processor.encode(text, out_type=int)
        if answer["ids"] == expected:
            continue
        if same is not None and same(answer["ids"], expected):
            tied += 1
            continue
        wrong += 1
        if wrong <= 5:
            print(f"  {name}: {text!r}\n    expected: {expected}\n    ropeway:  {answer['ids']}")
    print(f"{name}: {len(texts)} texts: {wrong} differences, {tied} ties")
    return wrong


def must_reject(arguments, work, name, what, model):
    folder = Folder(arguments.ropeway, arguments.folder, work, name)
    (folder.path / "tokenizer.model").write_bytes(model)
    done = subprocess.run([arguments.ropeway, "tokenize", "--model", str(folder.path), "--batch"], input=b"",
                          capture_output=True, check=False)
    message = done.stderr.decode()
    if done.returncode != 0 and what in message:
        return 0
    print(f"  {name}: expected an error that names {what}, not status {done.returncode}: {message}")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ropeway", required=True, help="the program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="a model in Hugging Face's format")
    parser.add_argument("--texts", type=int, default=400, help="how many random texts for each model")
    arguments = parser.parse_args()
    texts = [b"", b" ", b"   ", *(part.encode() for part in PARTS), *BROKEN, *random_texts(arguments.texts)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for kind in ("bpe", "unigram"):
            models = {name: train(kind, **options) for name, options in trained_with().items()}
            for name, model in {**models, **edited(kind)}.items():
                wrong += compare(arguments, work, f"{kind}-{name}", model, texts)
            for i, (what, model) in enumerate(rejected(kind).items()):
                wrong += must_reject(arguments, work, f"{kind}-rejected-{i}", what, model)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
