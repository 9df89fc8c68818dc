#!/usr/bin/env python3
"""Writes tests/data/encoder_references.json: what sentence-transformers makes of texts with all-MiniLM-L6-v2, which
encoder_model_test.py compares with Ropeway.

usage: make_encoder_references.py FOLDER >tests/data/encoder_references.json
FOLDER: of scripts/fetch_encoder.sh. Needs a Python environment of its own:
    python3 -m venv V && V/bin/pip install torch==2.15.0 transformers==5.24.0 sentence-transformers==6.2.0

The model's files cut texts to 256 tokens by default; here to all that the model has positions for, as Ropeway does. The
vectors, of length 1, are base64 of half-precision floats, whose rounding costs a cosine 0.0000001.
"""
import base64
import json
import pathlib
import random
import sys

import numpy
import sentence_transformers
import tokenizers

POSITIONS = 512
WORDS = (pathlib.Path(__file__).resolve().parent / "data" / "public_domain_long.txt").read_text().split()


def english(begin, count):
    return " ".join(WORDS[begin:begin + count])


def rare(seed, count):
    """Random characters of the first planes, assigned or not, among ASCII."""
    rng = random.Random(seed)
    planes = [c for c in range(0x80, 0x3000)] + list(range(0xA000, 0xD7FF)) + list(range(0xE000, 0x20000))
    return "".join(chr(rng.choice(planes)) if rng.random() < 0.4 else rng.choice("abc XYZ 12,.") for _ in range(count))


TEXTS = [
    "", " \n\t", "a", "hello world", "The quick brown fox jumps over the lazy dog.",
    "Café naïve résumé ÀÉÎÕÜ ñandú Ångström", "今天天气很好，我们去公园吧。", "日本語のテキスト、カタカナとひらがな",
    "한국어 문장입니다", "Привет, как дела?", "مرحبا بالعالم", "Ελληνικά κείμενα", "हिन्दी में लिखा हुआ", "ไทยไม่มีช่องว่าง",
    "tiếng Việt có dấu", "tab\tand\nnewline\r\nand   many    spaces", "don't can't won't I'll you've",
    "C++ and C# vs. Rust; x = y*2 + (3-4)/5", "http://example.com/path?query=1&b=2#frag",
    "user@example.org wrote: $1,234.56 (20% off!)", "\U0001F600 emoji \U0001F469‍\U0001F467 and ✅ flags",
    "ﬁ ligature Ⅷ roman ½ fraction ™", "Straße GROSS ẞ İstanbul ıI", "[SEP] in [CLS] a text [MASK]",
    "a" * 100 + " " + "b" * 101, "\u200bzero\u200bwidth\u00a0nbsp\u3000ideographic", "\u0000null\u0007bell\u001besc\ufffd",
    "".join(chr(c) for c in range(33, 127)), english(0, 12), english(40, 30), english(100, 60), english(300, 110),
    english(500, 250), english(0, 350), english(800, 600), "word " * 511, rare(1, 30), rare(2, 60), rare(3, 120), rare(4, 250),
    "x \u0378\u191f y\u2e52z \u166d \U0001CF00 \ue000 \U00020000\U0002F800",
]


def main():
    folder = sys.argv[1]
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    model.max_seq_length = POSITIONS
    vectors = model.encode(TEXTS, normalize_embeddings=True, batch_size=1).astype(numpy.float16)
    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(POSITIONS)
    texts = [{"text": text, "ids": tokenizer.encode(text).ids, "embedding": base64.b64encode(vector.tobytes()).decode()}
             for text, vector in zip(TEXTS, vectors)]
    print('{"made_by": "tests/make_encoder_references.py", "texts": [')
    print(",\n".join(json.dumps(text) for text in texts) + "]}")


if __name__ == "__main__":
    main()
