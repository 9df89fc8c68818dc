#!/usr/bin/env python3
"""Checks `ropeway tokenize` against tokenizers that are not ours, made of the GGUF file's own vocabulary
(tokenizer_references.py): Hugging Face `tokenizers` for every kind; sentencepiece where it has a model of the kind;
BERT's definition for WordPiece. Where llama.cpp's source has a file FILE.inp of texts beside the model, FILE.out is
what the model's own tokenizer made of them.

Compared are the ids of every text (multilingual, code, emoji, whitespace runs, contractions, digits, special tokens,
2,000 seeded random strings). Text that is not UTF-8, which the others do not take, is checked for its round trip
only, where the kind keeps all bytes. Ends with exit status 1 at any difference.

    check_tokenizer.py --ropeway PATH --model FILE.gguf [--model FILE.gguf ...] [--pre NAME ...]

With --pre the first model's vocabulary is checked with those split patterns instead of its own.
"""

import argparse
import base64
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizer_references as references
from gguf_metadata import GgufReader

TEXTS = [
    "",
    " ",
    "\n",
    "Hello, world!",
    "The gondola ropeway never stops: cabins clip on, ride, and clip off.",
    "I'm sure they'll say we've won; you'd think it's HE'S, I'LL, WE'VE, DON'T, 'Twas, 's'S'ſ",
    "naïve café Ærøskøbing Łódź İstanbul ﬁnancial ﬂow ß ẞ ǅ",
    "Быстрая коричневая лиса перепрыгивает через ленивую собаку.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "敏捷的棕色狐狸跳过了懒狗。人工智能、大语言模型！",
    "いろはにほへと ちりぬるを。カタカナと漢字、ﾊﾝｶｸ。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. ᄒ\u1161\u11ab",
    "السرعة مهمة جدًّا في خدمة النماذج اللغوية ١٢٣٤",
    "מהירות היא דבר חשוב, שָׁלוֹם",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। १२३",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ ๑๒๓",
    "Chó lười nằm ngủ dưới gốc cây đa. Tiếng Việt có dấu: ộ ở ữ e\u0301 o\u0302\u0323",
    "def main():\n    for i in range(10):\n\tif i % 2 == 0:\n\t\tprint(f'{i:>3}')  # even\n\n\n",
    "int main(void) {\r\n\tprintf(\"%d\\n\", 0x7fff);\r\n\treturn 0;\r\n}\r\n\r\n",
    "<div class=\"a b\"><!-- x --></div>\n\n\n   {\"k\": [1, 2.50, -3e10]}",
    "SELECT * FROM t WHERE a<>'b' -- c\n;;;===>>>!!!???...",
    "😀😃🎉👨\u200d👩\u200d👧\u200d👦 🇩🇪🇯🇵 👍🏽❤️\ufe0f #️⃣ 🏴\U000e0067\U000e0062\U000e007f",
    "  two   three    four     five\t\ttabs \t mixed \n \n  \n   lines\r\n\r \r\r\n end  ",
    " leading and trailing ",
    " " * 100,
    " " * 100 + "x",
    "\n" * 50 + " " * 50 + "\n" * 3,
    "\t" * 33 + "y" + "\u00a0\u00a0\u2003\u2009\u3000z\u1680\u180e\u2028\u2029\u0085\u200b\u200b\ufeff",
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 ½ ² ³ ① Ⅷ ৪ 〇",
    "a1b22c333d4444 x 5  66   777    8888",
    "\x00\x01\x02\x03\x05\x07\x08\x0b\x0c\x0e\x1b\x1c\x1d\x1e\x1f\x7f\x80\x85\xa0\xad",
    "a" * 1000,
    "ab" * 700 + "!" * 300 + "-" * 99,
    "supercalifragilisticexpialidocious" * 20,
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐍈𐌰 𓀀𓀁 \U0001f9d1\U0001f3ff \ue000\uf8ff \ufffd \uffff \U0010ffff",
    "'", "''", "' s", "'\u017f", "don't'", " 's", "'RE're'Re",
    "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|im_end", "<|<|im_end|>|>", "a<|endoftext|><|endoftext|>  b <|endoftext|>",
    "[PAD151646] x [PAD15164",
    "<s>[INST] Hi [/INST] Hello</s> <s> [INST]", "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<|user|>\n  Hi<|end|> \n<|assistant|>\n\n x<|end|>", "[CLS] a [MASK] b[SEP]", "a <mask>  b <mask><mask> c",
    "<0x0A><0x41>", "\u2581\u2581a\u2581 b", "<|start|>user<|message|>Hi<|end|>", "<unk> x <unk>",
]

INVALID = [
    b"\xff", b"\x80abc\xc3", b"ok \xe2\x82 then \xf0\x9f\x98 end\xf0\x9f", b"\xc0\xaf\xed\xa0\x80",
    bytes(range(256)), b"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80", "né".encode("latin-1"),
]


def random_texts(count):
    """Strings of mixed Unicode classes, only of characters that this Python's Unicode knows."""
    rng = random.Random(20240917)
    by_class = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs", "Co"):
            by_class.setdefault(category, []).append(chr(code))
    classes = sorted(by_class)
    ascii_text = [chr(c) for c in range(32, 127)]
    spaces = list(" \t\n\r\u00a0\u3000\u2028") + ["  ", "\r\n", "   "]
    words = ["the", "can't", "I'LL", "print", "über", "日本", "мир", "2024", "'s", "\U0001f600", "e\u0301"]
    sources = [ascii_text, spaces, words, list("0123456789"), list("aeiou"), list("!?.,'\"-_")]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            source = rng.choice(sources) if rng.random() < 0.6 else by_class[rng.choice(classes)]
            parts += [rng.choice(source) for _ in range(rng.randint(1, 6))]
        texts.append("".join(parts))
    return texts


def random_bytes(count):
    rng = random.Random(7)
    return [
        bytes(rng.choice((rng.randrange(256), 0x20, 0x61, 0xC3, 0xE2, 0xF0, 0x82, 0x9F))
              for _ in range(rng.randint(1, 40)))
        for _ in range(count)
    ]


def run(ropeway, model, lines):
    process = subprocess.run(
        [ropeway, "tokenize", "--model", model, "--batch"],
        input="".join(json.dumps(line) + "\n" for line in lines).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    if process.returncode != 0:
        sys.exit(f"{ropeway} tokenize ended with status {process.returncode}")
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    if len(answers) != len(lines):
        sys.exit(f"{len(lines)} lines in, {len(answers)} lines out")
    return answers


class Check:
    """One model's texts, Ropeway's ids of them, and what others say."""

    def __init__(self, ropeway, model, name, texts, raw):
        self.ropeway, self.model, self.name, self.texts, self.raw = ropeway, model, name, texts, raw
        self.fields = references.Fields(GgufReader(pathlib.Path(model).read_bytes()).metadata())
        self.wrong = 0
        self.notes = []

    def tokenize(self, texts, **options):
        return run(self.ropeway, self.model, [{"text": text, **options} for text in texts])

    def differs(self, what, text, expected, got):
        self.wrong += 1
        if self.wrong <= 10:
            print(f"  {what}: {text!r}\n    expected: {expected}\n    ropeway:  {got}")

    def compare(self, what, encode, around=True, skip=lambda text: False, same=None, **options):
        """Compares the ids of all texts but those to be skipped. `same`: whether two lists of ids are as good."""
        skipped = ties = 0
        for text, answer in zip(self.texts, self.tokenize(self.texts, **options)):
            if skip(text):
                skipped += 1
                continue
            expected = encode(text)
            expected = self.fields.around(expected) if around else expected
            if answer["ids"] == expected:
                continue
            if same is not None and same(answer["ids"], expected):
                ties += 1
            else:
                self.differs(what, text, expected, answer["ids"])
        note = f"{what} on {len(self.texts) - skipped} texts"
        self.notes.append(note + (f", {ties} ties" if ties else ""))

    def round_trip(self, lacks):
        """All bytes that have a token come back; `lacks`: what others become."""
        lines = [{"text": text, "add_special": False} for text in self.texts]
        lines += [{"base64": base64.b64encode(data).decode(), "add_special": False} for data in self.raw]
        wanted = [text.encode() for text in self.texts] + self.raw
        for data, answer in zip(wanted, run(self.ropeway, self.model, lines)):
            got = base64.b64decode(answer["text_base64"])
            expected = b"".join(lacks.get(byte, bytes([byte])) for byte in data)
            if got != expected:
                self.differs("round trip", data, expected, got)
        note = f" but {len(lacks)} bytes without a token" if lacks else ""
        self.notes.append(f"round trip of {len(wanted)}{note}")

    def goldens(self):
        path = pathlib.Path(str(self.model) + ".inp")
        if not path.exists():
            return
        wanted = [[int(i) for i in line.split()]
                  for line in path.with_suffix(".out").read_text().split("\n")]
        texts = path.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        count = min(len(texts), len(wanted))
        answers = self.tokenize(texts[:count], add_special=False, parse_special=False)
        for text, expected, answer in zip(texts, wanted, answers):
            if answer["ids"] != expected:
                self.differs("the model's own tokenizer", text, expected, answer["ids"])
        self.notes.append(f"the model's own tokenizer on {count} texts")

    def byte_level(self):
        encode, lacks = references.byte_level(self.fields)
        self.compare("tokenizers", encode)
        self.round_trip(lacks)

    def sentencepiece_bpe(self):
        fields = self.fields
        self.compare("tokenizers", references.sentencepiece_bpe(fields))
        if fields.model != "llama":
            return
        # In front of text behind a user-defined token sentencepiece writes no space; and where runs of spaces are
        # user-defined, a "▁" of the text's own is a space of such a run to it, but to nobody else.
        user_defined = [t for t, kind in zip(fields.tokens, fields.types) if kind == references.USER_DEFINED]
        marks = [references.SPACE] if any(t.isspace() and " " in t for t in user_defined) else []
        marks += user_defined if fields.space else []
        self.compare("sentencepiece", references.sentencepiece_model(fields), around=False,
                     skip=lambda text: any(mark in text for mark in marks),
                     add_special=False, parse_special=False)

    def unigram(self):
        fields = self.fields
        self.compare("sentencepiece", references.sentencepiece_model(fields), around=False,
                     same=references.unigram_ties(fields), add_special=False, parse_special=False)
        encode, alike = references.unigram(fields)
        self.compare("tokenizers", encode, skip=lambda text: not alike(text))

    def word_piece(self):
        encode, by_definition, alike = references.word_piece(self.fields)
        self.compare("tokenizers", encode)
        self.compare("BERT's definition", by_definition, skip=lambda text: not alike(text), around=False,
                     add_special=False, parse_special=False)

    def run(self):
        kinds = {"gpt2": self.byte_level, "llama": self.sentencepiece_bpe, "gemma4": self.sentencepiece_bpe,
                 "t5": self.unigram, "bert": self.word_piece}
        kinds[self.fields.model]()
        self.goldens()
        print(f"{self.name}: {'; '.join(self.notes)}: {self.wrong} differences")
        return self.wrong


def with_pre(model, pre):
    """The bytes of a vocabulary-only file with another value of tokenizer.ggml.pre."""
    data = pathlib.Path(model).read_bytes()
    value, end = GgufReader(data).metadata()["tokenizer.ggml.pre"]
    begin = end - len(value.encode()) - 8
    name = pre.encode()
    return data[:begin] + len(name).to_bytes(8, "little") + name + data[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ropeway", required=True, help="the program")
    parser.add_argument("--model", required=True, action="append", help="a GGUF file; repeatable")
    parser.add_argument("--pre", action="append", default=[], help="split patterns for the first model; repeatable")
    arguments = parser.parse_args()
    texts = TEXTS + random_texts(2000)
    raw = INVALID + random_bytes(500)
    wrong = 0
    if arguments.pre:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "vocabulary.gguf"
            for pre in arguments.pre:
                path.write_bytes(with_pre(arguments.model[0], pre))
                wrong += Check(arguments.ropeway, str(path), f"split patterns {pre}", texts, raw).run()
    else:
        for model in arguments.model:
            wrong += Check(arguments.ropeway, model, model.rsplit("/", 1)[-1], texts, raw).run()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
