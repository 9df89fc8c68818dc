// Writes the tests' tiny random model to a file:  make_tiny_model OUT.gguf [SEED]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "model/test_gguf_writer.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: make_tiny_model OUT.gguf [SEED]\n");
    return 2;
  }
  ropeway::model::TinyLlamaOptions options;
  if (argc == 3) options.seed = std::strtoull(argv[2], nullptr, 10);
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
