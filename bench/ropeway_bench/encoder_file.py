"""The GGUF file of an encoder of BERT's kind in Hugging Face's format, as llama.cpp's converter makes it, but without
torch: names of tensors, vocabulary and special tokens."""
import json
import math
import pathlib

WORD_BEGINS = "\u2581"  # As GGUF writes it; what has none continues a word.
CONTINUES = "##"
TOP_NAMES = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
             "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
LAYER_NAMES = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
               "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
               "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def gguf_name(name):
    """None: of no use for embeddings."""
    stem, _, ending = name.removeprefix("bert.").rpartition(".")
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{ending}"
    if not stem.startswith("encoder.layer."):
        return None
    layer, _, rest = stem.removeprefix("encoder.layer.").partition(".")
    return f"blk.{layer}.{LAYER_NAMES[rest]}.{ending}"


def tensors(path):
    """(name, array) of each tensor of a .safetensors file in F32."""
    import numpy  # pylint: disable=import-outside-toplevel
    data = numpy.memmap(path, numpy.uint8, "r")
    size = int.from_bytes(data[:8].tobytes(), "little")
    for name, about in json.loads(data[8:8 + size].tobytes()).items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        yield name, data[begin:end].view(numpy.float32).reshape(about["shape"])


def write(folder, path, q8_0=False):
    """The file of the model in `folder`. `q8_0`: its matrices have 8 bits."""
    import gguf  # pylint: disable=import-outside-toplevel
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if q8_0 else gguf.LlamaFileType.ALL_F32)
    add_vocabulary(writer, tokenizer, config, gguf)
    for name, array in tensors(folder / "model.safetensors"):
        to = gguf_name(name)
        if to is None:
            continue
        if q8_0 and to.endswith(".weight") and math.prod(array.shape) > array.shape[-1] and to not in (
                "position_embd.weight", "token_types.weight"):
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(to, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(to, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer, tokenizer, config, gguf):
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = [token for token, _ in sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])]
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")  # What the converter calls BERT's.
    writer.add_token_list([token if token in special else token.removeprefix(CONTINUES) if token.startswith(CONTINUES)
                           else WORD_BEGINS + token for token in tokens])
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
    writer.add_unk_token_id(special["[UNK]"])
    writer.add_sep_token_id(special["[SEP]"])
    writer.add_pad_token_id(special["[PAD]"])
    writer.add_bos_token_id(special["[CLS]"])
    writer.add_mask_token_id(special["[MASK]"])
