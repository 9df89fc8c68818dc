#!/usr/bin/env python3
"""Checks `ropeway tokenize` against Hugging Face `tokenizers`.

The Hugging Face model is built from the GGUF file's own vocabulary and merges. Compared are the ids
of every text (multilingual, code, emoji, whitespace runs, contractions, digits, special tokens, 2,000
seeded random strings); text that is not UTF-8, which `tokenizers` does not take, is checked for its
round trip only. Ends with exit status 1 at any difference.

    check_tokenizer.py --ropeway PATH --model FILE.gguf [--model FILE.gguf ...]
"""

import argparse
import base64
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

from gguf_metadata import GgufReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


PRE_TOKENIZERS = {
    "gpt-2": gpt2,
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), gpt2()]
    ),
    "llama-bpe": lambda: split_then_bytes(LLAMA3),
    "qwen2": lambda: split_then_bytes(QWEN2),
}

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


class Reference:
    """The Hugging Face tokenizer of one GGUF file."""

    def __init__(self, path):
        fields = GgufReader(pathlib.Path(path).read_bytes()).metadata()

        def get(key, default=None):
            return fields.get(key, (default,))[0]

        self.tokens = get("tokenizer.ggml.tokens")
        pre = get("tokenizer.ggml.pre")
        if pre not in PRE_TOKENIZERS:
            sys.exit(f"{path}: no reference for tokenizer.ggml.pre {pre!r}")
        types = get("tokenizer.ggml.token_type")
        merges = [tuple(merge.split(" ")) for merge in get("tokenizer.ggml.merges")]
        vocabulary = {}
        for i, token in enumerate(self.tokens):
            vocabulary.setdefault(token, i)
        self.tokenizer = Tokenizer(
            models.BPE(vocabulary, merges, ignore_merges=pre == "llama-bpe", fuse_unk=False)
        )
        self.tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
        self.tokenizer.decoder = decoders.ByteLevel()
        self.tokenizer.add_special_tokens(
            [
                AddedToken(token, special=True, normalized=False)
                for token, kind in zip(self.tokens, types)
                if kind in (UNKNOWN, CONTROL, USER_DEFINED)
            ]
        )
        self.prefix = []
        if get("tokenizer.ggml.add_bos_token", pre == "llama-bpe"):
            self.prefix = [get("tokenizer.ggml.bos_token_id")]
        # Bytes that the vocabulary has no token for cannot be encoded at all.
        self.lacks = sorted(byte for byte in range(256)
                            if byte_letter(byte) not in vocabulary)

    def encode(self, text):
        return self.prefix + self.tokenizer.encode(text, add_special_tokens=False).ids


def byte_letter(byte):
    """The character for `byte` in byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(0x100 + [b for b in range(256) if b not in printable].index(byte))


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


def check(ropeway, model, texts, raw):
    """Returns the number of differences."""
    reference = Reference(model)
    lines = [{"text": text} for text in texts]
    lines += [{"base64": base64.b64encode(data).decode(), "add_special": False} for data in raw]
    answers = run(ropeway, model, lines)

    wrong = 0
    for text, answer in zip(texts, answers):
        expected = reference.encode(text)
        if answer["ids"] != expected:
            wrong += 1
            if wrong <= 10:
                print(f"  {text!r}\n    tokenizers: {expected}\n    ropeway:    {answer['ids']}")
    lacks = bytes(reference.lacks)
    prefix = "".join(reference.tokens[i] for i in reference.prefix).encode()
    wanted = [prefix + text.encode() for text in texts] + raw
    for data, answer in zip(wanted, answers):
        got = base64.b64decode(answer["text_base64"])
        if got != data.translate(None, lacks):
            wrong += 1
            if wrong <= 10:
                print(f"  round trip: {data!r} came back as {got!r}")
    name = model.rsplit("/", 1)[-1]
    lacking = f", {len(lacks)} bytes without a token" if lacks else ""
    print(f"{name}: {len(texts)} texts, {len(raw)} byte strings{lacking}: {wrong} differences")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ropeway", required=True, help="the program")
    parser.add_argument("--model", required=True, action="append", help="a GGUF file; repeatable")
    arguments = parser.parse_args()
    texts = TEXTS + random_texts(2000)
    raw = INVALID + random_bytes(500)
    wrong = sum(check(arguments.ropeway, model, texts, raw) for model in arguments.model)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
