// Packs every matrix of a GGUF file into panels, as the loader does, and writes the numbers that
// its rows are unpacked to, for tests/tensor_types_test.py:
//
//   dump_tensors FILE.gguf OUT
//
// OUT: float32; of each tensor in the file's order [outputs][inputs]. The file need not be a model.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/open_model.h"

namespace ropeway::test {
namespace {

int Fail(const std::string& message) {
  std::fprintf(stderr, "dump_tensors: %s\n", message.c_str());
  return 1;
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// `data`: of the tensor, as in the file.
void DumpMatrix(const model::GgufTensor& tensor, const std::vector<std::byte>& data,
                kernels::WeightType type, std::ofstream* out) {
  kernels::Matrix matrix = {.type = type,
                            .n = static_cast<int32_t>(tensor.shape[1]),
                            .k = static_cast<int32_t>(tensor.shape[0])};
  const size_t bytes = kernels::MatrixBytes(type, matrix.n, matrix.k);
  const std::unique_ptr<std::byte, FreeBytes> panels(
      static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  kernels::PackPanels(type, matrix.n, matrix.k, data.data(), 0, matrix.num_panels(), panels.get());
  matrix.panels = panels.get();
  std::vector<float> row(static_cast<size_t>(matrix.k));
  for (int r = 0; r < matrix.n; ++r) {
    kernels::UnpackRow(matrix, r, row.data());
    out->write(reinterpret_cast<const char*>(row.data()),
               static_cast<std::streamsize>(row.size() * sizeof(float)));
  }
}

int Main(const std::string& path, const std::string& to) {
  const auto file = model::OpenModel(path);
  if (!file.ok()) return Fail(file.status().message());
  std::ofstream out(to, std::ios::binary);
  for (const model::GgufTensor& tensor : (*file)->tensors()) {
    const auto type = model::WeightTypeOf(tensor.type);
    if (!type.has_value() || tensor.shape.size() != 2) {
      return Fail("a tensor that is no matrix of weights: " + std::string(tensor.name));
    }
    std::vector<std::byte> data(tensor.bytes);
    if (const Status status = (*file)->Read(tensor.begin, data); !status.ok()) {
      return Fail(status.message());
    }
    DumpMatrix(tensor, data, *type, &out);
  }
  out.close();
  return out ? 0 : Fail("cannot write " + to);
}

}  // namespace
}  // namespace ropeway::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: dump_tensors FILE.gguf OUT\n");
    return 2;
  }
  return ropeway::test::Main(argv[1], argv[2]);
}
