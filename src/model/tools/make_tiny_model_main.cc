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

int Write(const char* path, std::string_view kind) {
  if (kind == "--folder") {
    std::filesystem::create_directories(path);
    WriteTinyFolder(F32Model(), path);
    return 0;
  }
  if (kind != "" && kind != "--long" && kind != "--f32") return 2;
  const TinyLlamaOptions options = kind == "--long"  ? LongModel()
                                   : kind == "--f32" ? F32Model()
                                                     : TinyLlamaOptions();
  return WriteGguf(options, path) ? 0 : 1;
}

}  // namespace
}  // namespace ropeway::model

int main(int argc, char** argv) {
  const bool good = argc == 2 || argc == 3;
  const int code = good ? ropeway::model::Write(argv[1], argc == 3 ? argv[2] : "") : 2;
  if (code == 2) {
    std::fprintf(stderr, "usage: make_tiny_model OUT.gguf [--long | --f32 | --folder]\n");
  }
  return code;
}
