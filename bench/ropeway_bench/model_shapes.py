"""GGUF files with the shapes of known models and random weights: speed needs no true ones.

Names, shapes and types of the tensors are those that llama.cpp's quantizer gives such a model as Q4_K_M or as Q8_0; the
vocabulary is that of a vocabulary-only file of llama.cpp's source. Levels are random bytes, under scales that let each
matrix keep the size of its inputs. What is written is made piece by piece: only a few MiB are in memory at a time.
"""
import dataclasses
import math
import os
import pathlib
import shutil
import struct
import sys

from ropeway_bench import BenchError

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from gguf_metadata import STRING, GgufReader  # noqa: E402  pylint: disable=wrong-import-position

ALIGNMENT = 32
PIECE_BYTES = 8 << 20
SPARE_BYTES = 1 << 30  # That a disk keeps free.
UINT32, FLOAT32 = 4, 6
ROPE_ORIGINAL = 8192  # Of Llama 3's scaled rotations: the context that it was trained with first.


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model's sizes. `experts` of 0: it has none. `rope_scaling`: Llama 3's factor; 0: none."""
    title: str
    architecture: str
    vocabulary: str  # ggml-vocab-VOCABULARY.gguf
    layers: int
    context: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_base: float
    eps: float
    tied: bool = False
    rope_scaling: float = 0
    head_norms: bool = False  # Of queries and keys.
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0


SHAPES = {
    "llama-3.2-1b": Shape("Llama 3.2 1B", "llama", "llama-bpe", 16, 131072, 2048, 8192, 32, 8, 64, 500000.0, 1e-5,
                          tied=True, rope_scaling=32.0),
    "qwen3-4b": Shape("Qwen3 4B", "qwen3", "qwen2", 36, 40960, 2560, 9728, 32, 8, 128, 1e6, 1e-6, tied=True,
                      head_norms=True),
    "llama-3.1-8b": Shape("Llama 3.1 8B", "llama", "llama-bpe", 32, 131072, 4096, 14336, 32, 8, 128, 500000.0, 1e-5,
                          rope_scaling=8.0),
    # The first layers of 48.
    "qwen3-moe": Shape("4 layers of Qwen3 30B-A3B", "qwen3moe", "qwen2", 4, 40960, 2048, 6144, 32, 4, 128, 1e6, 1e-6,
                       head_norms=True, experts=128, experts_used=8, expert_ffn=768),
}


@dataclasses.dataclass(frozen=True)
class BlockType:
    """How a type of tensors is stored. `deviation`: of a weight whose levels are random, in units of its f16 scale,
    which lies at byte `scale` of a block. `minimum`: where the f16 scale of its minima lies; at `minimum_ratio` times
    the first one the mean is 0."""
    number: int
    elements: int
    bytes: int
    scale: int = 0
    deviation: float = 1.0
    minimum: int = -1
    minimum_ratio: float = 0


# A level of n bits has the mean (2^n - 1) / 2 and the variance (4^n - 1) / 12; Q8_0's levels and Q6_K's scales are
# signed bytes, Q6_K's levels have 6 bits and count from -32, Q4_K's scales and minima have 6 bits, its levels 4.
TYPES = {
    "F32": BlockType(0, 1, 4),
    "Q8_0": BlockType(8, 32, 34, 0, math.sqrt(5461.5)),
    "Q4_K": BlockType(12, 256, 144, 0, math.sqrt(1333.5 * 77.5 - (31.5 * 7.5) ** 2 + 7.5 ** 2 * 341.25), 2, 7.5),
    "Q6_K": BlockType(14, 256, 210, 208, math.sqrt(5461.5 * 341.5)),
}
FILE_TYPES = {"Q4_K_M": 15, "Q8_0": 7}  # general.file_type.
MIXTURES = tuple(FILE_TYPES)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """`shape`: inputs first, as in GGUF."""
    name: str
    shape: tuple
    type: str

    @property
    def elements(self):
        return math.prod(self.shape)

    @property
    def bytes(self):
        kind = TYPES[self.type]
        return self.elements // kind.elements * kind.bytes


def padded(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def has_more_bits(layer, layers):
    """The layers whose values and last matrices llama.cpp's Q4_K_M keeps in 6 bits."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def type_of(mixture, name, shape, layer=0):
    """The type of a matrix of a `shape` (a Shape)."""
    if mixture == "Q8_0":
        return "Q8_0"
    if name == "output" or (name == "token_embd" and shape.tied):
        return "Q6_K"
    if name.startswith(("attn_v", "ffn_down")) and has_more_bits(layer, shape.layers):
        return "Q6_K"
    return "Q4_K"


def layer_tensors(shape, mixture, layer):
    """Its Tensors, in the order of a forward pass."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    hidden = shape.hidden
    found = [("attn_norm", (hidden,)), ("attn_q", (hidden, q)), ("attn_k", (hidden, kv)), ("attn_v", (hidden, kv)),
             ("attn_output", (q, hidden))]
    if shape.head_norms:
        found += [("attn_q_norm", (shape.head_dim,)), ("attn_k_norm", (shape.head_dim,))]
    found.append(("ffn_norm", (hidden,)))
    if shape.experts:
        count, ffn = shape.experts, shape.expert_ffn
        found += [("ffn_gate_inp", (hidden, count)), ("ffn_gate_exps", (hidden, ffn, count)),
                  ("ffn_up_exps", (hidden, ffn, count)), ("ffn_down_exps", (ffn, hidden, count))]
    else:
        found += [("ffn_gate", (hidden, shape.ffn)), ("ffn_up", (hidden, shape.ffn)), ("ffn_down", (shape.ffn, hidden))]
    for name, sizes in found:
        exact = len(sizes) == 1 or name == "ffn_gate_inp"
        yield Tensor(f"blk.{layer}.{name}.weight", sizes, "F32" if exact else type_of(mixture, name, shape, layer))


def tensors_of(shape, mixture, tokens):
    """All tensors of the model with a vocabulary of so many tokens."""
    found = [Tensor("token_embd.weight", (shape.hidden, tokens), type_of(mixture, "token_embd", shape))]
    if shape.rope_scaling:
        found.append(Tensor("rope_freqs.weight", (shape.head_dim // 2,), "F32"))
    for layer in range(shape.layers):
        found += layer_tensors(shape, mixture, layer)
    found.append(Tensor("output_norm.weight", (shape.hidden,), "F32"))
    if not shape.tied:
        found.append(Tensor("output.weight", (shape.hidden, tokens), type_of(mixture, "output", shape)))
    for tensor in found:
        if tensor.shape[0] % TYPES[tensor.type].elements:
            raise BenchError(f"{tensor.name}: rows of {tensor.shape[0]} are no whole blocks of {tensor.type}")
    return found


# The weights.


def rope_divisors(shape):
    """Llama 3.1's: slow rotations take `rope_scaling` times as long, fast ones stay, and between them it is blended."""
    divisors = []
    for i in range(shape.head_dim // 2):
        turns = ROPE_ORIGINAL * shape.rope_base ** (-2 * i / shape.head_dim) / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - 1) / (4 - 1)))
        divisors.append(1 / ((1 - kept) / shape.rope_scaling + kept))
    return divisors


def pieces_of(tensor, shape, random):
    """The tensor's bytes, in pieces of at most PIECE_BYTES. `random`: a generator of numpy's."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    inputs = tensor.shape[0]
    if tensor.type == "F32":
        if tensor.name == "rope_freqs.weight":
            values = np.array(rope_divisors(shape))
        elif len(tensor.shape) == 1:
            values = np.ones(inputs)  # Norms.
        else:
            values = random.standard_normal(tensor.elements) / math.sqrt(inputs)
        yield values.astype("<f4").tobytes()
        return
    kind = TYPES[tensor.type]
    scale = 1 / (math.sqrt(inputs) * kind.deviation)
    left = tensor.elements // kind.elements
    most = max(1, PIECE_BYTES // kind.bytes)
    while left > 0:
        count = min(left, most)
        left -= count
        blocks = np.frombuffer(bytearray(random.bytes(count * kind.bytes)), np.uint8).reshape(count, kind.bytes)
        for at, value in ((kind.scale, scale), (kind.minimum, scale * kind.minimum_ratio)):
            if at >= 0:
                blocks[:, at:at + 2] = np.frombuffer(struct.pack("<e", value), np.uint8)
        yield blocks.tobytes()


# The file.


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key of the metadata: a text, a whole number or a float."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", UINT32, value)
    return text(key) + struct.pack("<If", FLOAT32, value)


def metadata_of(shape, mixture):
    """[the bytes of each entry], but for the vocabulary's."""
    keys = {"block_count": shape.layers, "context_length": shape.context, "embedding_length": shape.hidden,
            "feed_forward_length": shape.ffn, "attention.head_count": shape.heads,
            "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head_dim,
            "attention.value_length": shape.head_dim, "attention.layer_norm_rms_epsilon": shape.eps,
            "rope.freq_base": shape.rope_base}
    if shape.architecture == "llama":
        keys["rope.dimension_count"] = shape.head_dim
    if shape.experts:
        keys |= {"expert_count": shape.experts, "expert_used_count": shape.experts_used,
                 "expert_feed_forward_length": shape.expert_ffn}
    return [entry("general.architecture", shape.architecture), entry("general.name", f"Random, as {shape.title}"),
            entry("general.file_type", FILE_TYPES[mixture]), entry("general.quantization_version", 2),
            *(entry(f"{shape.architecture}.{key}", value) for key, value in keys.items())]


def read_vocabulary(path):
    """([the bytes of each entry of the vocabulary], its number of tokens) of a GGUF file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    reader = GgufReader(data)
    begin, entries, tokens = reader.at, [], 0
    for key, (value, end) in reader.metadata().items():
        if key.startswith("tokenizer."):
            entries.append(data[begin:end])
        if key == "tokenizer.ggml.tokens":
            tokens = len(value)
        begin = end
    return entries, tokens


def description(tensor, offset):
    rank = len(tensor.shape)
    return text(tensor.name) + struct.pack(f"<I{rank}QIQ", rank, *tensor.shape, TYPES[tensor.type].number, offset)


def write(path, shape, mixture, vocabulary, seed=1):
    """Writes the model of a Shape to `path`, which is there when it is whole. `vocabulary`: the path of a GGUF file."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    entries, tokens = read_vocabulary(vocabulary)
    entries = metadata_of(shape, mixture) + entries
    tensors = tensors_of(shape, mixture, tokens)
    total = sum(padded(tensor.bytes) for tensor in tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if total + SPARE_BYTES > free:
        raise BenchError(f"{path} needs {total / 1e9:.1f} GB and one more that stays free, of {free / 1e9:.1f} GB free")
    new = path.with_suffix(".new")
    try:
        with open(new, "wb") as file:
            file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries)) + b"".join(entries))
            offset = 0
            for tensor in tensors:
                file.write(description(tensor, offset))
                offset += padded(tensor.bytes)
            file.write(bytes(-file.tell() % ALIGNMENT))
            for number, tensor in enumerate(tensors):
                for piece in pieces_of(tensor, shape, np.random.Generator(np.random.PCG64([seed, number]))):
                    file.write(piece)
                file.write(bytes(-file.tell() % ALIGNMENT))
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def default_folder():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return cache / "ropeway" / "shapes"


def file_of(name, mixture, folder, vocabularies):
    """The path of a model of SHAPES in `folder`, made first where it is missing. `vocabularies()`: the folder of
    llama.cpp's vocabulary-only files, asked for when one is needed."""
    path = pathlib.Path(folder) / f"{name}-{mixture}.gguf"
    if not path.exists():
        shape = SHAPES[name]
        print(f"Making {path}: {shape.title} with random weights", file=sys.stderr, flush=True)
        write(path, shape, mixture, pathlib.Path(vocabularies()) / f"ggml-vocab-{shape.vocabulary}.gguf")
    return str(path)
