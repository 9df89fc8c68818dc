// Writes the hostile model files: each a tiny sound model with one thing wrong, as a file that was
// cut, edited or made with intent may have it. They are made anew because they would weigh more in
// the repository than the code that makes them.
//
//   make_gguf_corpus FOLDER
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/test_gguf_writer.h"

namespace ropeway::fuzz {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kArray = 9;

// As small as a model that loads can be: what is mutated most should be headers, not weights.
model::GgufWriter Small() {
  model::TinyLlamaOptions options;
  options.layers = 1;
  options.hidden = 32;
  options.heads = 2;
  options.kv_heads = 1;
  options.ffn = 32;
  options.context_length = 64;
  return model::TinyLlama(options);
}

template <typename T>
std::string Packed(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// `file` with the bytes at `at` overwritten.
std::string Patched(std::string file, size_t at, const std::string& bytes) {
  file.replace(at, bytes.size(), bytes);
  return file;
}

class Corpus {
 public:
  explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  void Add(const std::string& name, const std::string& bytes) {
    std::ofstream out(folder_ / name, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    good_ = good_ && out.good();
  }

  // The small model after `change`.
  void Change(const std::string& name, const std::function<void(model::GgufWriter&)>& change) {
    model::GgufWriter writer = Small();
    change(writer);
    Add(name, writer.Bytes());
  }

  bool good() const { return good_; }

 private:
  std::filesystem::path folder_;
  bool good_ = true;
};

// The 24 bytes in front: magic, version, counts of tensors and of metadata.
void AddHeaders(Corpus& corpus) {
  const std::string sound = Small().Bytes();
  corpus.Add("sound", sound);
  corpus.Add("version_2", [] {
    model::GgufWriter writer(2);
    writer.SetString("general.architecture", "llama");
    return writer.Bytes();
  }());
  for (const size_t bytes : {1, 4, 8, 16, 23, 24, 25, 40, 100, 1000}) {
    corpus.Add("cut_at_" + std::to_string(bytes), sound.substr(0, bytes));
  }
  corpus.Add("cut_in_the_weights", sound.substr(0, sound.size() - 1));
  corpus.Add("magic_swapped", Patched(sound, 0, "FUGG"));
  corpus.Add("version_0", Patched(sound, 4, Packed<uint32_t>(0)));
  corpus.Add("version_big_endian", Patched(sound, 4, Packed<uint32_t>(0x03000000)));
  for (const uint64_t count : {uint64_t{0}, uint64_t{1} << 20, uint64_t{1} << 60, kHuge}) {
    corpus.Add("tensors_" + std::to_string(count), Patched(sound, 8, Packed(count)));
    corpus.Add("entries_" + std::to_string(count), Patched(sound, 16, Packed(count)));
  }
  corpus.Add("key_length_huge", Patched(sound, 24, Packed(kHuge)));
}

void AddMetadata(Corpus& corpus) {
  const auto raw = [&](const std::string& name, uint32_t type, const std::string& bytes) {
    corpus.Change(name, [&](model::GgufWriter& w) { w.AddRaw("x." + name, type, bytes); });
  };
  raw("type_unknown", 99, Packed<uint32_t>(1));
  raw("bool_is_2", 7, "\x02");
  raw("string_huge", 8, Packed(kHuge));
  raw("array_huge", kArray, Packed<uint32_t>(4) + Packed(uint64_t{1} << 61));
  raw("array_of_strings_huge", kArray, Packed<uint32_t>(8) + Packed(kHuge));
  raw("array_of_unknown", kArray, Packed<uint32_t>(77) + Packed<uint64_t>(1));
  // An array of arrays of arrays ...: what recurses into it runs out of stack.
  std::string nested;
  for (int i = 0; i < 10'000; ++i) nested += Packed<uint32_t>(kArray) + Packed<uint64_t>(1);
  raw("array_nested", kArray, nested);
  corpus.Change("key_twice", [](model::GgufWriter& w) {
    w.AddRaw("general.architecture", 8, Packed<uint64_t>(3) + "gpt");
  });
  corpus.Change("key_not_utf8",
                [](model::GgufWriter& w) { w.AddRaw("a\xFF\x1B[31m\n", 4, Packed<uint32_t>(1)); });
  corpus.Change("value_moves_the_cursor", [](model::GgufWriter& w) {
    w.SetString("general.name", "a\x1B[2J\x1B]0;title\x07\xC2\x9B\r\n\xE2\x80\xAE");
  });
  corpus.Change("architecture_not_utf8", [](model::GgufWriter& w) {
    w.SetString("general.architecture", "\xFF\xFE\x1B[31m");
  });
  for (const uint32_t alignment : {0U, 1U, 3U, 7U, 1U << 31U, ~0U}) {
    corpus.Change("alignment_" + std::to_string(alignment),
                  [&](model::GgufWriter& w) { w.SetUint32("general.alignment", alignment); });
  }
}

void AddConfigs(Corpus& corpus) {
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.attention.key_length", "llama.rope.dimension_count", "llama.vocab_size"}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 31, kHuge}) {
      corpus.Change(std::string(key) + "_" + std::to_string(value), [&](model::GgufWriter& w) {
        w.Remove(key);
        w.SetUint64(key, value);
      });
    }
    corpus.Change(std::string(key) + "_text",
                  [&](model::GgufWriter& w) { w.SetString(key, "\x1B[31m\xFF"); });
  }
  for (const float value : {NAN, INFINITY, -1.0F, 0.0F, 1e-45F, 3e38F}) {
    const std::string name = std::to_string(value).substr(0, 8);
    corpus.Change("eps_" + name, [&](model::GgufWriter& w) {
      w.SetFloat32("llama.attention.layer_norm_rms_epsilon", value);
    });
    corpus.Change("rope_base_" + name,
                  [&](model::GgufWriter& w) { w.SetFloat32("llama.rope.freq_base", value); });
    corpus.Change("rope_factor_" + name, [&](model::GgufWriter& w) {
      w.SetString("llama.rope.scaling.type", "yarn");
      w.SetFloat32("llama.rope.scaling.factor", value);
      w.SetUint32("llama.rope.scaling.original_context_length", 64);
    });
  }
}

void AddVocabularies(Corpus& corpus) {
  const auto change = [&](const std::string& name,
                          const std::function<void(model::GgufWriter&)>& how) {
    corpus.Change("vocabulary_" + name, how);
  };
  change("empty", [](model::GgufWriter& w) { w.SetStrings("tokenizer.ggml.tokens", {}); });
  change("empty_tokens", [](model::GgufWriter& w) {
    w.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>(267));
  });
  change("equal_tokens", [](model::GgufWriter& w) {
    w.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>(267, "a"));
  });
  change("not_utf8", [](model::GgufWriter& w) {
    w.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>(267, "\xFF\x1B\n"));
  });
  change("types_short",
         [](model::GgufWriter& w) { w.SetInt32s("tokenizer.ggml.token_type", {1}); });
  change("types_unknown", [](model::GgufWriter& w) {
    w.SetInt32s("tokenizer.ggml.token_type", std::vector<int32_t>(267, -7));
  });
  change("all_control", [](model::GgufWriter& w) {
    w.SetInt32s("tokenizer.ggml.token_type", std::vector<int32_t>(267, 3));
  });
  const std::vector<std::string> merges = {"",   " ",     "a",         "a b c",
                                           "  ", "zz zz", "\xFF \xFF", "\x1B \n"};
  for (size_t i = 0; i < merges.size(); ++i) {
    change("merge_" + std::to_string(i),
           [&](model::GgufWriter& w) { w.SetStrings("tokenizer.ggml.merges", {merges[i]}); });
  }
  change("bos_outside",
         [](model::GgufWriter& w) { w.SetUint32("tokenizer.ggml.bos_token_id", 267); });
  change("eos_huge", [](model::GgufWriter& w) { w.SetUint32("tokenizer.ggml.eos_token_id", ~0U); });
  change("bos_negative",
         [](model::GgufWriter& w) { w.SetInt32("tokenizer.ggml.bos_token_id", -1); });
  change("pre_hostile",
         [](model::GgufWriter& w) { w.SetString("tokenizer.ggml.pre", "\x1B[2J\xFF"); });
  change("model_hostile",
         [](model::GgufWriter& w) { w.SetString("tokenizer.ggml.model", "\n\xFF"); });
  for (const char* model : {"llama", "gemma4", "t5", "bert"}) {
    const auto with = [&](const std::string& name,
                          const std::function<void(model::GgufWriter&)>& how) {
      change(std::string(model) + "_" + name, [&](model::GgufWriter& w) {
        w.SetString("tokenizer.ggml.model", model);
        w.SetFloat32s("tokenizer.ggml.scores", std::vector<float>(267, -1.0F));
        how(w);
      });
    };
    with("sound", [](model::GgufWriter&) {});
    with("scores_short", [](model::GgufWriter& w) { w.SetFloat32s("tokenizer.ggml.scores", {1}); });
    with("scores_nan", [](model::GgufWriter& w) {
      w.SetFloat32s("tokenizer.ggml.scores", std::vector<float>(267, NAN));
    });
    with("scores_text", [](model::GgufWriter& w) { w.SetString("tokenizer.ggml.scores", "\xFF"); });
    with("all_bytes", [](model::GgufWriter& w) {
      w.SetInt32s("tokenizer.ggml.token_type", std::vector<int32_t>(267, 6));
    });
    with("long_tokens", [](model::GgufWriter& w) {
      w.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>(267, std::string(9000, 'a')));
      w.SetInt32s("tokenizer.ggml.token_type", std::vector<int32_t>(267, 1));
    });
    for (const uint32_t size : {0U, 3U, 4U, 400U, ~0U}) {
      with("char_map_" + std::to_string(size), [&](model::GgufWriter& w) {
        const std::string map = Packed(size) + std::string(500, '\x81') + '\0';
        w.AddRaw("tokenizer.ggml.precompiled_charsmap", kArray,
                 Packed<uint32_t>(0) + Packed<uint64_t>(map.size()) + map);
      });
    }
  }
  change("template_nested", [](model::GgufWriter& w) {
    w.SetString("tokenizer.chat_template", "{{" + std::string(20'000, '(') + "}}");
  });
  change("template_hostile", [](model::GgufWriter& w) {
    w.SetString("tokenizer.chat_template", "{% \xFF\x1B[31m %}");
  });
}

void AddTensors(Corpus& corpus) {
  constexpr uint32_t kF32 = 0;
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape, uint32_t type,
                       uint64_t shift = 0) {
    corpus.Change("tensor_" + name, [&](model::GgufWriter& w) {
      w.AddRawTensor("extra", shape, type, std::string(64, 'x'), shift);
    });
  };
  add("no_dimensions", {}, kF32);
  add("zero_dimension", {0}, kF32);
  add("product_overflows", {uint64_t{1} << 32, uint64_t{1} << 32, 4}, kF32);
  add("bytes_overflow", {uint64_t{1} << 62}, kF32);
  add("dimension_huge", {kHuge}, kF32);
  add("five_dimensions", {2, 2, 2, 2, 1}, kF32);
  add("type_unknown", {16}, 12345);
  add("type_removed", {16}, 4);
  add("half_a_block", {17}, 2);
  add("misaligned", {16}, kF32, 1);
  add("beyond_the_end", {16}, kF32, uint64_t{1} << 40);
  add("offset_wraps", {16}, kF32, kHuge - 31);
  add("overlaps", {16}, kF32, kHuge - 63);
  corpus.Change("tensor_twice", [](model::GgufWriter& w) {
    w.AddRawTensor("output_norm.weight", {32}, kF32, std::string(128, 'x'));
  });
  corpus.Change("tensor_name_hostile", [](model::GgufWriter& w) {
    w.AddRawTensor("blk.0.\xFF\x1B[31m\n", {16}, kF32, std::string(64, 'x'));
  });
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight"}) {
    corpus.Change(std::string("without_") + name,
                  [&](model::GgufWriter& w) { w.RemoveTensor(name); });
    corpus.Change(std::string("transposed_") + name, [&](model::GgufWriter& w) {
      w.RemoveTensor(name);
      w.AddRawTensor(name, {1, 64}, kF32, std::string(256, 'x'));
    });
  }
}

}  // namespace
}  // namespace ropeway::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_gguf_corpus FOLDER\n");
    return 2;
  }
  ropeway::fuzz::Corpus corpus(argv[1]);
  ropeway::fuzz::AddHeaders(corpus);
  ropeway::fuzz::AddMetadata(corpus);
  ropeway::fuzz::AddConfigs(corpus);
  ropeway::fuzz::AddVocabularies(corpus);
  ropeway::fuzz::AddTensors(corpus);
  if (!corpus.good()) {
    std::fprintf(stderr, "make_gguf_corpus: cannot write to %s\n", argv[1]);
    return 1;
  }
  return 0;
}
