// Writes the tests' tiny random model:  make_tiny_model OUT.gguf [--long | --f32 | --folder]
// --long: with a context of 8,192 tokens, and enough to compute that requests overlap. --f32: with
// all weights in F32. --folder: the same as --f32, in Hugging Face's format, into the folder OUT.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"

namespace ropeway::model {
namespace {

TinyLlamaOptions LongModel() {
  TinyLlamaOptions options;
  options.layers = 4;
  options.hidden = 128;
  options.head_dim = 32;
  options.ffn = 384;
  options.context_length = 8192;
  options.embedding = options.weights = kernels::WeightType::kF16;
  return options;
}

TinyLlamaOptions F32Model() {
  TinyLlamaOptions options;
  options.embedding = options.weights = kernels::WeightType::kF32;
  return options;
}

bool WriteGguf(const TinyLlamaOptions& options, const char* path) {
  const std::string bytes = TinyLlama(options).Bytes();
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) std::fprintf(stderr, "make_tiny_model: cannot write %s\n", path);
  return static_cast<bool>(out);
}

// Whether the words are a path, which does not look like a flag, and perhaps one of the kinds.
bool IsUsage(int argc, char** argv) {
  if (argc != 2 && argc != 3) return false;
  const std::string_view kind = argc == 3 ? argv[2] : "--f32";
  return !std::string_view(argv[1]).starts_with("--") &&
         (kind == "--long" || kind == "--f32" || kind == "--folder");
}

bool Write(const char* path, std::string_view kind) {
  if (kind == "--folder") {
    std::filesystem::create_directories(path);
    WriteTinyFolder(F32Model(), path);
    return true;
  }
  const TinyLlamaOptions options = kind == "--long"  ? LongModel()
                                   : kind == "--f32" ? F32Model()
                                                     : TinyLlamaOptions();
  return WriteGguf(options, path);
}

}  // namespace
}  // namespace ropeway::model

int main(int argc, char** argv) {
  if (!ropeway::model::IsUsage(argc, argv)) {
    std::fprintf(stderr, "usage: make_tiny_model OUT.gguf [--long | --f32 | --folder]\n");
    return 1;
  }
  return ropeway::model::Write(argv[1], argc == 3 ? argv[2] : "") ? 0 : 1;
}
