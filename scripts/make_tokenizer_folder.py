#!/usr/bin/env python3
"""make_tokenizer_folder.py MODEL.gguf FOLDER: writes the tokenizer of a GGUF file with byte-level BPE as a folder in
Hugging Face's format (tokenizer.json, tokenizer_config.json with the chat template, config.json), for programs that
read no GGUF, such as Dynamo's front."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gguf_metadata import GgufReader
from tokenizer_references import Fields, byte_level_tokenizer


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_tokenizer_folder.py MODEL.gguf FOLDER")
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    metadata = GgufReader(pathlib.Path(source).read_bytes()).metadata()
    fields = Fields(metadata)
    if fields.model != "gpt2":
        sys.exit(f"make_tokenizer_folder.py: {source}: expected a byte-level BPE (gpt2), not '{fields.model}'")
    from tokenizers import decoders

    tokenizer = byte_level_tokenizer(fields)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))

    def write(name, value):
        (folder / name).write_text(json.dumps(value, indent=1))

    text = lambda i: None if i is None else fields.tokens[i]
    template = metadata.get("tokenizer.chat_template", (None,))[0]
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": text(fields.bos), "eos_token": text(fields.eos),
        "unk_token": text(fields.unk), "chat_template": template, "add_bos_token": bool(fields.add_bos),
        "clean_up_tokenization_spaces": False})
    architecture = fields.architecture
    get = lambda key: metadata.get(f"{architecture}.{key}", (None,))[0]
    write("config.json", {
        "model_type": architecture, "architectures": ["LlamaForCausalLM"], "bos_token_id": fields.bos,
        "eos_token_id": fields.eos, "max_position_embeddings": get("context_length"), "hidden_size": get("embedding_length"),
        "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
        "vocab_size": len(fields.tokens)})
    write("generation_config.json", {"bos_token_id": fields.bos, "eos_token_id": fields.eos})


if __name__ == "__main__":
    main()
