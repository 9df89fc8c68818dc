"""Tokenizers that are not ours, made of a GGUF file's own vocabulary: Hugging Face `tokenizers`, sentencepiece, and
BERT's definition in Python."""

import struct
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\u2581"

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = f"{BEFORE}{UPPER}*{LOWER}+{SHORT}|{BEFORE}{UPPER}+{LOWER}*{SHORT}" + r"|\p{N}{1,3}" + REST
TEKKEN = f"{BEFORE}{UPPER}*{LOWER}+|{BEFORE}{UPPER}+{LOWER}*" + r"|\p{N}" + REST
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗ"
    "ὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)


def isolated(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def then_bytes(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def digits():
    return pre_tokenizers.Digits(individual_digits=True)


PRE_TOKENIZERS = {
    "gpt-2": gpt2,
    "smollm": lambda: pre_tokenizers.Sequence([digits(), gpt2()]),
    "llama-bpe": lambda: then_bytes(*isolated(LLAMA3)),
    "dbrx": lambda: then_bytes(*isolated(LLAMA3)),
    "glm4": lambda: then_bytes(*isolated(LLAMA3)),
    "qwen2": lambda: then_bytes(*isolated(QWEN2)),
    "qwen35": lambda: then_bytes(*isolated(QWEN35)),
    "gpt-4o": lambda: then_bytes(*isolated(O200K)),
    "tekken": lambda: then_bytes(*isolated(TEKKEN)),
    "falcon": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation(behavior="contiguous"),
            gpt2(),
            pre_tokenizers.Digits(individual_digits=False),
            *isolated("[0-9][0-9][0-9]"),
        ]
    ),
    "deepseek-llm": lambda: then_bytes(
        *isolated("[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", "\\s+$", CJK), digits()
    ),
    "deepseek-coder": lambda: then_bytes(*isolated("[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK), digits()),
    "deepseek-v3": lambda: then_bytes(
        *isolated("\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3)
    ),
}
SAME = {None: "gpt-2", "mpt": "gpt-2", "starcoder": "smollm", "refact": "smollm", "command-r": "smollm"}
IGNORE_MERGES = ("llama-bpe", "tekken", "glm4")


def byte_letter(byte):
    """The character for `byte` in byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(0x100 + [b for b in range(256) if b not in printable].index(byte))


class Fields:
    """A file's metadata, with what files of its kind leave out."""

    DEFAULTS = {
        "llama": {"bos": 1, "eos": 2, "unk": 0, "add_bos": True, "space": True},
        "gemma4": {"add_bos": True},
        "t5": {"eos": 1, "unk": 2, "add_eos": True},
        "bert": {"bos": 101, "eos": 102, "unk": 100, "add_bos": True, "add_eos": True},
    }

    def __init__(self, metadata):
        def get(key, default=None):
            return metadata.get("tokenizer.ggml." + key, (default,))[0]

        self.model, self.pre = get("model"), get("pre")
        defaults = self.DEFAULTS.get(self.model, {})
        self.tokens = get("tokens")
        self.types = get("token_type") or [NORMAL] * len(self.tokens)
        self.scores, self.merges = get("scores"), get("merges")
        self.bos = get("bos_token_id", get("cls_token_id", defaults.get("bos")))
        self.eos = get("eos_token_id", defaults.get("eos"))
        if self.model == "bert":
            self.eos = get("seperator_token_id", defaults.get("eos"))
        self.unk = get("unknown_token_id", defaults.get("unk"))
        self.add_bos = get("add_bos_token", defaults.get("add_bos", self.pre in ("llama-bpe", "tekken")))
        self.add_eos = get("add_eos_token", defaults.get("add_eos", False))
        self.space = get("add_space_prefix", defaults.get("space", False))
        self.remove_spaces = get("remove_extra_whitespaces", False)
        self.char_map = bytes(byte & 0xFF for byte in get("precompiled_charsmap", []))
        self.architecture = metadata.get("general.architecture", (None,))[0]
        # Some files call them ordinary text.
        for i in (self.bos, self.eos):
            looks_special = i is not None and self.tokens[i].startswith("<") and self.tokens[i].endswith(">")
            if looks_special and self.types[i] in (NORMAL, USER_DEFINED):
                self.types[i] = CONTROL

    def vocabulary(self):
        found = {}
        for i, token in enumerate(self.tokens):
            found.setdefault(token, i)
        return found

    def added(self):
        """The added tokens, with the rules that their families' files have for white space."""
        tokens = []
        for token, kind in zip(self.tokens, self.types):
            if kind not in (UNKNOWN, CONTROL, USER_DEFINED):
                continue
            phi3 = self.architecture == "phi3" and self.model == "llama" and kind != UNKNOWN
            strips = phi3 and token not in ("<unk>", "<s>", "<|endoftext|>")
            tokens.append(AddedToken(token, special=True, normalized=False, rstrip=strips,
                                     lstrip=self.model == "t5" and token == "<mask>"))
        return tokens

    def around(self, ids):
        return ([self.bos] if self.add_bos else []) + ids + ([self.eos] if self.add_eos else [])


def encoder(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def byte_level_tokenizer(fields):
    """`tokenizers` for byte-level BPE."""
    pre = SAME.get(fields.pre, fields.pre)
    merges = [tuple(merge.split(" ")) for merge in fields.merges]
    tokenizer = Tokenizer(models.BPE(fields.vocabulary(), merges, ignore_merges=pre in IGNORE_MERGES, fuse_unk=False))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.add_special_tokens(fields.added())
    return tokenizer


def byte_level(fields):
    """The same, and what bytes become that the vocabulary lacks: nothing; or the letter that stands for one, where
    that is an added token (deepseek-coder's, for bytes that no UTF-8 text has)."""
    vocabulary = fields.vocabulary()
    lacks = {}
    for byte in range(256):
        found = vocabulary.get(byte_letter(byte))
        if found is None or fields.types[found] != NORMAL:
            lacks[byte] = b"" if found is None else byte_letter(byte).encode()
    return encoder(byte_level_tokenizer(fields)), lacks


def merges_of_scores(fields):
    """As transformers makes them of a sentencepiece model: by scores, then lengths."""
    vocabulary = {t: i for i, t in enumerate(fields.tokens) if fields.types[i] == NORMAL}
    merges = []
    for token, i in vocabulary.items():
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in vocabulary and right in vocabulary:
                merges.append((fields.scores[i], len(left), len(right), left, right))
    merges.sort(key=lambda merge: merge[:3], reverse=True)
    return [merge[3:] for merge in merges]


def sentencepiece_bpe_tokenizer(fields):
    """`tokenizers` for SentencePiece's BPE."""
    by_scores = fields.model == "llama" and fields.scores
    merges = merges_of_scores(fields) if by_scores else [tuple(merge.split(" ")) for merge in fields.merges]
    unknown = fields.tokens[fields.unk]
    tokenizer = Tokenizer(
        models.BPE(fields.vocabulary(), merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    steps = [normalizers.Prepend(SPACE)] if fields.space else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    tokenizer.add_special_tokens(fields.added())
    return tokenizer


def replace_and_split(tokenizer):
    """Has it write spaces as Gemma's files do. The split finds none."""
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")


def metaspace(scheme, split):
    """The same as newer files of Llama 2 and Mistral do; older ones split."""
    def write(tokenizer):
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=split)
    return write


def sentencepiece_bpe(fields):
    return encoder(sentencepiece_bpe_tokenizer(fields))


def message(number, value):
    """A field of a protocol buffer."""
    if isinstance(value, bool):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def sentencepiece_file(fields):
    """The bytes of a tokenizer.model that is made of the vocabulary."""
    has_bytes = BYTE in fields.types
    known = set(fields.tokens)
    parts = []
    for i, (token, score, kind) in enumerate(zip(fields.tokens, fields.scores, fields.types)):
        if i == fields.unk:
            kind = UNKNOWN
        elif kind == UNKNOWN:
            kind = UNUSED
        # Gemma's own file has its runs of spaces, which are user-defined, as it writes all spaces: "▁▁". Converters
        # write them into a GGUF file as they stand in a text. sentencepiece looks for them where spaces are "▁" already.
        if kind == USER_DEFINED and (written := token.replace(" ", SPACE)) not in known:
            token = written
        parts.append(message(1, message(1, token) + message(2, float(score)) + message(3, kind)))
    trainer = message(3, 1 if fields.model == "t5" else 2) + message(35, has_bytes) + message(40, fields.unk)
    trainer += message(41, fields.bos if fields.bos is not None else -1) + message(42, fields.eos) + message(43, -1)
    normalizer = message(1, "from a GGUF file") + message(2, fields.char_map) + message(3, bool(fields.space))
    normalizer += message(4, bool(fields.remove_spaces)) + message(5, True)
    parts += [message(2, trainer), message(3, normalizer)]
    return b"".join(parts)


def sentencepiece_model(fields):
    """sentencepiece itself, with such a file. It knows no special tokens in a text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_file(fields))
    return lambda text: processor.encode(text, out_type=int)


def unigram_ties(fields):
    """Whether two lists of a unigram model's ids are as good: sentencepiece adds the scores up in single precision,
    over the whole text."""
    worst = min(score for score, kind in zip(fields.scores, fields.types) if kind == NORMAL)

    def total(ids):
        return sum(fields.scores[i] if i != fields.unk else worst - 10 for i in ids)

    return lambda a, b: abs(total(a) - total(b)) < 1e-5 * abs(total(a)) + 1e-4


class CharMap:
    """SentencePiece's table of characters, looked up in its own way."""

    def __init__(self, data):
        size, = struct.unpack_from("<I", data)
        self.units = struct.unpack_from(f"<{size // 4}I", data, 4)
        self.texts = data[4 + size:]

    def longest(self, text):
        """The number of bytes that `text` begins with and that are mapped, and what to."""
        def offset(unit):
            return (unit >> 10) << ((unit & 0x200) >> 6)

        found, node = (0, b""), offset(self.units[0])
        for i, byte in enumerate(text):
            node ^= byte
            if byte == 0 or node >= len(self.units) or self.units[node] & 0x800000FF != byte:
                break
            unit = self.units[node]
            node ^= offset(unit)
            if unit >> 8 & 1:
                begin = self.units[node] & 0x7FFFFFFF
                found = i + 1, self.texts[begin:self.texts.index(b"\0", begin)]
        return found

    def normalize(self, text):
        data, out, at = text.encode(), b"", 0
        while at < len(data):
            length, to = self.longest(data[at:at + 64])
            if length == 0:
                length = 1
                while at + length < len(data) and data[at + length] & 0xC0 == 0x80:
                    length += 1
                to = data[at:at + length]
            out += to
            at += length
        return out.decode()


def unigram(fields):
    """`tokenizers` for the unigram model, and whether it normalizes a text as sentencepiece does: it maps whole
    graphemes, and the shortest beginning of one; and it strips other white space than spaces at the end."""
    # Tokens without a use are not in the file that the model came from.
    count = len(fields.tokens)
    while fields.types[count - 1] == UNUSED:
        count -= 1
    vocabulary = list(zip(fields.tokens[:count], map(float, fields.scores)))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=fields.unk, byte_fallback=BYTE in fields.types))
    precompiled = normalizers.Precompiled(fields.char_map)
    tokenizer.normalizer = normalizers.Sequence(
        [precompiled, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.add_special_tokens(fields.added())
    char_map = CharMap(fields.char_map)

    def alike(text):
        normalized = precompiled.normalize_str(text)
        return normalized == char_map.normalize(text) and normalized.rstrip() == normalized.rstrip(" ")

    return encoder(tokenizer), alike


def is_ideograph(code):
    return any(first <= code <= last for first, last in (
        (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
        (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)))


def bert_words(text):
    """BERT's words, by the definition and this Python's Unicode."""
    out = ""
    for char in text:
        if char in "\t\n\r":
            out += " "
        elif char == "\ufffd" or unicodedata.category(char)[0] == "C":
            continue
        elif unicodedata.category(char)[0] == "Z":
            out += " "
        elif is_ideograph(ord(char)):
            out += f" {char} "
        else:
            out += char
    words = [""]
    for char in unicodedata.normalize("NFD", out):
        if unicodedata.category(char) == "Mn":
            continue
        for lower in char.lower():
            punctuation = unicodedata.category(lower)[0] == "P" or lower in "$+<=>^`|~"
            if lower == " " or punctuation:
                words.append("")
            if lower != " ":
                words[-1] += lower
            if punctuation:
                words.append("")
    return [word for word in words if word]


def word_piece(fields):
    """`tokenizers` for WordPiece; the same by the definition; and whether both class a text's characters alike
    (`tokenizers` has the tables of Unicode 8)."""
    vocabulary = {}
    for i, (token, kind) in enumerate(zip(fields.tokens, fields.types)):
        plain = kind == CONTROL or token.startswith(SPACE)
        vocabulary.setdefault(token.removeprefix(SPACE) if plain else "##" + token, i)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(fields.added())
    known = {}

    def alike(char):
        if char not in known:
            text = tokenizer.normalizer.normalize_str(f"a{char}b")
            words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
            known[char] = words == bert_words(f"a{char}b")
        return known[char]

    def divide(word):
        ids = []
        if len(word) > 100:
            return [fields.unk]
        at = 0
        while at < len(word):
            ends = range(len(word), at, -1)
            token = next((vocabulary[t] for t in (("##" if at else "") + word[at:end] for end in ends)
                          if t in vocabulary), None)
            if token is None:
                return [fields.unk]
            at += len(fields.tokens[token].removeprefix(SPACE))
            ids.append(token)
        return ids

    def by_definition(text):
        return [i for word in bert_words(text) for i in divide(word)]

    return encoder(tokenizer), by_definition, lambda text: all(map(alike, text))
