// The tiny random model of the tests. Its weights come from integer arithmetic and exact float
// steps, so that the file is the same on every machine.
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

// SplitMix64 (Steele, Lea & Flood 2014).
class TinyRandom {
 public:
  explicit TinyRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  // About normal, mean 0 and deviation 1: a sum of four uniform numbers.
  double Normal() {
    const uint64_t bits = Next();
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>((bits >> (16 * i)) & 0xFFFF);
    // The deviation of the sum is 65536 * sqrt(4 / 12).
    return static_cast<double>(sum - 2 * 65535) / 37837.0;
  }

  std::vector<float> Normals(size_t count, double deviation) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>(static_cast<float>(Normal()) * deviation);
    }
    return values;
  }

 private:
  uint64_t state_;
};

std::string Utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// How byte-level BPE writes each byte (GPT-2): printable ones as themselves, others from U+0100 on.
std::array<std::string, 256> ByteTokens() {
  std::array<std::string, 256> tokens;
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable =
        (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    tokens[b] = Utf8(printable ? b : next++);
  }
  return tokens;
}

}  // namespace

void AddTinyTokenizer(GgufWriter* file) {
  constexpr int kNormal = 1;
  constexpr int kControl = 3;
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(3, kControl);
  const std::array<std::string, 256> bytes = ByteTokens();
  tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  const std::string space = bytes[' '];
  const std::array<std::pair<std::string, std::string>, kTinyMerges> merges = {{
      {"h", "e"},
      {"i", "n"},
      {space, "t"},
      {space + "t", "he"},
      {"e", "r"},
      {"l", "l"},
      {"o", "u"},
      {space, "a"},
  }};
  std::vector<std::string> merge_lines;
  for (const auto& [left, right] : merges) {
    merge_lines.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  types.resize(tokens.size(), kNormal);
  file->SetString("tokenizer.ggml.model", "gpt2");
  file->SetString("tokenizer.ggml.pre", "smollm");
  file->SetStrings("tokenizer.ggml.tokens", tokens);
  file->SetInt32s("tokenizer.ggml.token_type", types);
  file->SetStrings("tokenizer.ggml.merges", merge_lines);
  file->SetUint32("tokenizer.ggml.bos_token_id", 1);
  file->SetUint32("tokenizer.ggml.eos_token_id", 2);
  file->SetUint32("tokenizer.ggml.unknown_token_id", 0);
  file->SetBool("tokenizer.ggml.add_bos_token", false);
  file->SetBool("tokenizer.ggml.add_space_prefix", false);
  file->SetString("tokenizer.chat_template",
                  "{% for message in messages %}"
                  "{% if loop.first and messages[0]['role'] != 'system' %}"
                  "{{ '<|im_start|>system\nYou are tiny.<|im_end|>\n' }}{% endif %}"
                  "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
                  "+ '\n'}}{% endfor %}"
                  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
}

std::vector<double> TinyNormals(uint64_t seed, size_t count) {
  TinyRandom random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = random.Normal();
  return values;
}

namespace {

void AddConfig(const TinyLlamaOptions& o, GgufWriter* file) {
  file->SetString("general.architecture", "llama");
  file->SetString("general.name", "Tiny random llama");
  file->SetUint32("llama.block_count", static_cast<uint32_t>(o.layers));
  file->SetUint32("llama.context_length", static_cast<uint32_t>(o.context_length));
  file->SetUint32("llama.embedding_length", static_cast<uint32_t>(o.hidden));
  file->SetUint32("llama.feed_forward_length", static_cast<uint32_t>(o.ffn));
  file->SetUint32("llama.attention.head_count", static_cast<uint32_t>(o.heads));
  file->SetUint32("llama.attention.head_count_kv", static_cast<uint32_t>(o.kv_heads));
  file->SetUint32("llama.attention.key_length", static_cast<uint32_t>(o.head_dim));
  file->SetUint32("llama.attention.value_length", static_cast<uint32_t>(o.head_dim));
  file->SetUint32("llama.rope.dimension_count", static_cast<uint32_t>(o.head_dim));
  file->SetFloat32("llama.rope.freq_base", 10000.0F);
  file->SetFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  file->SetUint32("llama.vocab_size", kTinyVocab);
}

class TensorMaker {
 public:
  TensorMaker(const TinyLlamaOptions& options, GgufWriter* file)
      : options_(options), file_(file), random_(options.seed) {}

  void Embedding(const std::string& name) {
    // Small beside what the layers add, so that a tied output does not repeat the last token.
    Add(name, options_.hidden, kTinyVocab, options_.embedding, 0.35);
  }

  // [out, in] with outputs `gain` times as large as the inputs.
  void Weights(const std::string& name, int in, int out, double gain) {
    constexpr std::array kTypes = {kernels::WeightType::kQ4_1, kernels::WeightType::kF16,
                                   kernels::WeightType::kQ4_0, kernels::WeightType::kQ8_0,
                                   kernels::WeightType::kF32};
    kernels::WeightType type = options_.weights;
    if (!options_.types.empty()) {
      type = options_.types[next_type_++ % options_.types.size()];
    } else if (options_.mixed) {
      type = kTypes[next_type_++ % kTypes.size()];
    }
    Add(name, in, out, type, gain / std::sqrt(static_cast<double>(in)));
  }

  void Norm(const std::string& name) {
    std::vector<float> values = random_.Normals(static_cast<size_t>(options_.hidden), 0.1);
    for (float& value : values) value += 1.0F;
    file_->SetTensor(name, {values.size()}, kernels::WeightType::kF32, values);
  }

 private:
  void Add(const std::string& name, int in, int out, kernels::WeightType type, double deviation) {
    const std::vector<float> values =
        random_.Normals(static_cast<size_t>(in) * static_cast<size_t>(out), deviation);
    file_->SetTensor(name, {static_cast<uint64_t>(in), static_cast<uint64_t>(out)}, type, values);
  }

  const TinyLlamaOptions& options_;
  GgufWriter* file_;
  TinyRandom random_;
  size_t next_type_ = 0;
};

}  // namespace

GgufWriter TinyLlama(const TinyLlamaOptions& o) {
  GgufWriter file;
  AddConfig(o, &file);
  AddTinyTokenizer(&file);
  TensorMaker make(o, &file);
  make.Embedding("token_embd.weight");
  for (int i = 0; i < o.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    make.Norm(prefix + "attn_norm.weight");
    // Sharper than average attention, so that the text before matters.
    make.Weights(prefix + "attn_q.weight", o.hidden, o.heads * o.head_dim, 2.0);
    make.Weights(prefix + "attn_k.weight", o.hidden, o.kv_heads * o.head_dim, 1.0);
    make.Weights(prefix + "attn_v.weight", o.hidden, o.kv_heads * o.head_dim, 1.0);
    make.Weights(prefix + "attn_output.weight", o.heads * o.head_dim, o.hidden, 1.5);
    make.Norm(prefix + "ffn_norm.weight");
    make.Weights(prefix + "ffn_gate.weight", o.hidden, o.ffn, 1.5);
    make.Weights(prefix + "ffn_up.weight", o.hidden, o.ffn, 1.0);
    make.Weights(prefix + "ffn_down.weight", o.ffn, o.hidden, 1.5);
  }
  make.Norm("output_norm.weight");
  if (!o.tied) make.Embedding("output.weight");
  return file;
}

}  // namespace ropeway::model
