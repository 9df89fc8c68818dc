// The tiny random model of the tests as a folder in Hugging Face's format.
#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/open_model.h"
#include "model/quantize.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr int32_t kControlType = 3;

json TokenizerOf(const GgufFile& file) {
  const GgufArray& tokens = *file.GetArray("tokenizer.ggml.tokens", GgufType::kString).value();
  const GgufArray& types = *file.GetArray("tokenizer.ggml.token_type", GgufType::kInt32).value();
  const GgufArray& merges = *file.GetArray("tokenizer.ggml.merges", GgufType::kString).value();
  json vocab = json::object();
  json added = json::array();
  for (size_t i = 0; i < tokens.strings.size(); ++i) {
    const std::string token(tokens.strings[i]);
    int32_t type = 0;
    std::memcpy(&type, types.data.data() + i * sizeof type, sizeof type);
    vocab[token] = i;
    if (type == kControlType) {
      added.push_back({{"id", i}, {"content", token}, {"special", true}});
    }
  }
  json pairs = json::array();
  for (const std::string_view merge : merges.strings) pairs.push_back(std::string(merge));
  const json steps = {{{"type", "Digits"}, {"individual_digits", true}},
                      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}}};
}

json TokenizerConfigOf(const GgufFile& file) {
  const auto text = file.GetString("tokenizer.chat_template").value();
  return {{"bos_token", "<|im_start|>"},
          {"eos_token", "<|im_end|>"},
          {"unk_token", {{"content", "<|endoftext|>"}}},
          {"add_bos_token", false},
          {"chat_template", std::string(text.value_or(""))}};
}

json ConfigOfTiny(const TinyLlamaOptions& o) {
  return {{"architectures", json::array({"LlamaForCausalLM"})},
          {"hidden_act", "silu"},
          {"hidden_size", o.hidden},
          {"intermediate_size", o.ffn},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"num_key_value_heads", o.kv_heads},
          {"head_dim", o.head_dim},
          {"max_position_embeddings", o.context_length},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"vocab_size", kTinyVocab},
          {"tie_word_embeddings", o.tied}};
}

// "blk.1.attn_q.weight" -> "model.layers.1.self_attn.q_proj.weight".
std::string HfNameOf(std::string_view gguf) {
  const auto fixed = [&]() -> std::string {
    if (gguf == "token_embd.weight") return "model.embed_tokens.weight";
    if (gguf == "output_norm.weight") return "model.norm.weight";
    if (gguf == "output.weight") return "lm_head.weight";
    return "";
  }();
  if (!fixed.empty()) return fixed;
  static const std::vector<std::pair<std::string, std::string>> kParts = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
  };
  const std::string name(gguf);
  const size_t dot = name.find('.', 4);
  for (const auto& [from, to] : kParts) {
    if (name.substr(dot + 1) == from + ".weight") {
      return "model.layers." + name.substr(4, dot - 4) + "." + to + ".weight";
    }
  }
  throw std::runtime_error("no such tensor in a llama model: " + name);
}

// Reorders a query's or key's rows from GGUF's order, where the two numbers that rotate together
// are neighbours, to Hugging Face's, where they are half a head apart.
std::string HalvesApart(const std::string& rows, size_t row_bytes, size_t head_dim) {
  std::string halves;
  for (size_t row = 0; row < rows.size() / row_bytes; ++row) {
    const size_t within = row % head_dim;
    const size_t half = head_dim / 2;
    const size_t from = row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
    halves += rows.substr(from * row_bytes, row_bytes);
  }
  return halves;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

void WriteTinyFolder(const TinyLlamaOptions& options, const std::string& folder) {
  const TempFile temp(TinyLlama(options).Bytes());
  const auto opened = OpenModel(temp.path());
  if (!opened.ok()) throw std::runtime_error(opened.status().message());
  const GgufFile& file = **opened;
  SafetensorsWriter writer;
  for (const GgufTensor& tensor : file.tensors()) {
    const bool is_f32 = tensor.type == ggml_type::kF32;
    if (!is_f32 && tensor.type != ggml_type::kF16) throw std::runtime_error("neither F32 nor F16");
    std::string bytes(tensor.bytes, '\0');
    const Status status = file.Read(tensor.begin, std::as_writable_bytes(std::span(bytes)));
    if (!status.ok()) throw std::runtime_error(status.message());
    const std::string name = HfNameOf(tensor.name);
    if (name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")) {
      bytes =
          HalvesApart(bytes, tensor.bytes / tensor.shape[1], static_cast<size_t>(options.head_dim));
    }
    const std::vector<uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    writer.AddBytes(name, shape, is_f32 ? "F32" : "F16", bytes);
  }
  WriteFile(folder + "/model.safetensors", writer.Bytes());
  WriteFile(folder + "/config.json", ConfigOfTiny(options).dump(1));
  WriteFile(folder + "/tokenizer.json", TokenizerOf(file).dump());
  WriteFile(folder + "/tokenizer_config.json", TokenizerConfigOf(file).dump(1));
}

}  // namespace ropeway::model
