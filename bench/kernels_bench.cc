// Speed of single kernels on one thread. Counters: GOPS (2 * rows * n * k) for products, GB/s for
// what is bound by memory. Weights and KV rotate over more memory than the caches hold where the
// name says cold.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"

namespace ropeway {
namespace {

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, Free>;

Bytes Allocate(size_t size) {
  // Large pages, as the model's weights and the KV pool have them.
  constexpr size_t kLargePage = size_t{2} << 20;
  const size_t rounded = (size + kLargePage - 1) / kLargePage * kLargePage;
  void* memory = std::aligned_alloc(kLargePage, rounded);
  madvise(memory, rounded, MADV_HUGEPAGE);
  return Bytes(static_cast<std::byte*>(memory));
}

// Copies of one random matrix.
struct Weights {
  Weights(WeightType type, int n, int k, int copies) {
    std::mt19937 rng(1);
    const size_t row_bytes = WeightRowBytes(type, k);
    std::vector<std::byte> rows(row_bytes * static_cast<size_t>(n));
    for (std::byte& byte : rows) byte = static_cast<std::byte>(rng());
    const size_t block = row_bytes / static_cast<size_t>(k / WeightBlockElements(type));
    const uint16_t scale = FloatToHalf(0.01F);
    for (size_t at = 0; at < rows.size(); at += block) std::memcpy(&rows[at], &scale, 2);
    const size_t bytes = MatrixBytes(type, n, k);
    memory = Allocate(bytes * static_cast<size_t>(copies));
    for (int i = 0; i < copies; ++i) {
      std::byte* panels = memory.get() + static_cast<size_t>(i) * bytes;
      matrices.push_back({.type = type, .n = n, .k = k, .panels = panels});
      PackPanels(type, n, k, rows.data(), 0, matrices.back().num_panels(), panels);
    }
  }
  Bytes memory;
  std::vector<Matrix> matrices;
};

void MatMul(benchmark::State& state, const Kernels* kernels, WeightType type, int k, int n,
            bool cold) {
  const int rows = static_cast<int>(state.range(0));
  const size_t bytes = MatrixBytes(type, n, k);
  const int copies = cold ? static_cast<int>((size_t{200} << 20) / bytes) + 1 : 1;
  const Weights weights(type, n, k, copies);
  std::vector<float> x(static_cast<size_t>(rows) * static_cast<size_t>(k));
  std::mt19937 rng(2);
  for (float& value : x) value = std::normal_distribution<float>()(rng);
  const Bytes packed = Allocate(PackedRowsBytes(type, rows, k));
  kernels->pack_rows(type, x.data(), k, 0, rows, k, packed.get());
  std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(n));
  size_t i = 0;
  for (auto _ : state) {
    const Matrix& w = weights.matrices[i++ % weights.matrices.size()];
    kernels->matmul(w, packed.get(), rows, 0, w.num_panels(), y.data(), n);
    benchmark::ClobberMemory();
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GOPS"] =
      benchmark::Counter(2e-9 * rows * n * k * runs, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * static_cast<double>(bytes) * runs, benchmark::Counter::kIsRate);
}

void PackRows(benchmark::State& state, const Kernels* kernels) {
  const int rows = static_cast<int>(state.range(0));
  const int k = 576;
  std::vector<float> x(static_cast<size_t>(rows) * k);
  std::mt19937 rng(2);
  for (float& value : x) value = std::normal_distribution<float>()(rng);
  const Bytes packed = Allocate(PackedRowsBytes(WeightType::kQ4_1, rows, k));
  for (auto _ : state) {
    kernels->pack_rows(WeightType::kQ4_1, x.data(), k, 0, rows, k, packed.get());
    benchmark::ClobberMemory();
  }
  state.counters["ns/row"] =
      benchmark::Counter(1e-9 * rows * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// `rows` queries of a group of 3 heads behind `context` positions; 64 dimensions.
void Attention(benchmark::State& state, const Kernels* kernels, bool cold) {
  const int rows = static_cast<int>(state.range(0));
  const int context = static_cast<int>(state.range(1));
  const int head_dim = 64;
  const int group = 3;
  const int blocks = (context + rows + kKvBlockTokens - 1) / kKvBlockTokens;
  const size_t stride = size_t{4} * kKvBlockTokens * head_dim;
  const int copies =
      cold ? static_cast<int>((size_t{200} << 20) / (stride * static_cast<size_t>(blocks))) : 1;
  const size_t elements = stride * static_cast<size_t>(blocks) * static_cast<size_t>(copies) / 2;
  const Bytes kv = Allocate(elements * 2);
  std::mt19937 rng(3);
  uint16_t* halves = reinterpret_cast<uint16_t*>(kv.get());
  for (size_t i = 0; i < elements; ++i) {
    halves[i] = FloatToHalf(static_cast<float>(rng() % 2001) * 1e-3F - 1.0F);
  }
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (size_t b = 0; b < table.size(); ++b) table[b] = static_cast<int32_t>(b);
  std::vector<float> q(static_cast<size_t>(rows * group * head_dim));
  for (float& value : q) value = std::normal_distribution<float>()(rng);
  std::vector<float> partial(static_cast<size_t>(rows * group * PartialFloats(head_dim)));
  AttentionArgs args = {.q = q.data(),
                        .q_stride = group * head_dim,
                        .scale = 0.125F,
                        .rows = rows,
                        .start = context,
                        .group = group,
                        .head_dim = head_dim,
                        .kv = kv.get(),
                        .block_stride = stride,
                        .blocks = table.data()};
  int copy = 0;
  for (auto _ : state) {
    args.kv = kv.get() + static_cast<size_t>(copy) * stride * static_cast<size_t>(blocks);
    copy = (copy + 1) % copies;
    kernels->attention(args, 0, partial.data());
    benchmark::ClobberMemory();
  }
  double pairs = 0;
  for (int r = 0; r < rows; ++r) pairs += context + r + 1;
  const double runs = static_cast<double>(state.iterations());
  state.counters["GFLOPS"] =
      benchmark::Counter(4e-9 * pairs * group * head_dim * runs, benchmark::Counter::kIsRate);
}

void Elementwise(benchmark::State& state, const Kernels* kernels) {
  const int n = static_cast<int>(state.range(0));
  std::vector<float> x(static_cast<size_t>(n), 0.3F);
  std::vector<float> y(static_cast<size_t>(n), 0.2F);
  std::vector<float> z(static_cast<size_t>(n));
  for (auto _ : state) {
    kernels->rms_norm(x.data(), y.data(), n, 1e-5F, z.data());
    kernels->swiglu(x.data(), y.data(), n, z.data());
    benchmark::ClobberMemory();
  }
}

void Register(const Kernels* kernels) {
  const std::string name = kernels->name;
  struct Shape {
    WeightType type;
    int k;
    int n;
  };
  for (const Shape& shape :
       {Shape{WeightType::kQ4_1, 576, 3072}, Shape{WeightType::kQ4_1, 1536, 576},
        Shape{WeightType::kQ4_0, 576, 3072}, Shape{WeightType::kQ8_0, 576, 8192},
        Shape{WeightType::kF16, 576, 3072}}) {
    for (const bool cold : {false, true}) {
      const std::string label = name + "/matmul/" + WeightTypeName(shape.type) + "/" +
                                std::to_string(shape.k) + "x" + std::to_string(shape.n) +
                                (cold ? "/cold" : "");
      benchmark::RegisterBenchmark(label.c_str(), MatMul, kernels, shape.type, shape.k, shape.n,
                                   cold)
          ->Arg(1)
          ->Arg(2)
          ->Arg(4)
          ->Arg(8)
          ->Arg(16)
          ->Arg(32)
          ->Arg(128);
    }
  }
  benchmark::RegisterBenchmark((name + "/pack_rows/576").c_str(), PackRows, kernels)
      ->Arg(1)
      ->Arg(128);
  benchmark::RegisterBenchmark((name + "/attention").c_str(), Attention, kernels, false)
      ->Args({1, 200})
      ->Args({64, 0})
      ->Args({64, 900});
  benchmark::RegisterBenchmark((name + "/attention/cold").c_str(), Attention, kernels, true)
      ->Args({1, 200})
      ->Args({1, 1000});
  benchmark::RegisterBenchmark((name + "/norm_and_swiglu").c_str(), Elementwise, kernels)
      ->Arg(1536);
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) {
  for (const char* name : {"reference", "avx2", "avx512vnni"}) {
    const ropeway::Kernels* kernels = ropeway::KernelsByName(name);
    if (kernels != nullptr) ropeway::Register(kernels);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
