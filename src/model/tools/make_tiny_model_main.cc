// Writes the tests' tiny random model to a file:  make_tiny_model OUT.gguf [--long]
// --long: with a context of 8,192 tokens, and enough to compute that requests overlap.
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "model/test_gguf_writer.h"

int main(int argc, char** argv) {
  const bool is_long = argc == 3 && argv[2] == std::string_view("--long");
  if (argc != (is_long ? 3 : 2)) {
    std::fprintf(stderr, "usage: make_tiny_model OUT.gguf [--long]\n");
    return 2;
  }
  ropeway::model::TinyLlamaOptions options;
  if (is_long) {
    options.layers = 4;
    options.hidden = 128;
    options.head_dim = 32;
    options.ffn = 384;
    options.context_length = 8192;
    options.embedding = options.weights = ropeway::kernels::WeightType::kF16;
  }
  const std::string bytes = ropeway::model::TinyLlama(options).Bytes();
  std::ofstream out(argv[1], std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    std::fprintf(stderr, "make_tiny_model: cannot write %s\n", argv[1]);
    return 1;
  }
  return 0;
}
