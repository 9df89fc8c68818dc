#include "gpu/probe.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/text.h"

namespace ropeway::gpu {
namespace {

constexpr int kProbeLanes = 64;
constexpr size_t kOperations = 5;
constexpr const char* kOperationNames[kOperations] = {
    "a * b + c (with two roundings)", "the fused a * b + c", "a * b", "a / b", "sqrt(a)"};

using Triple = std::array<float, 3>;

// Where a rounding less, a flushed denormal or an approximation is seen.
std::vector<Triple> Numbers() {
  std::vector<Triple> numbers = {
      {1 + 0x1p-12F, 1 + 0x1p-12F, -(1 + 0x1p-11F)},  // The second rounding takes the last bit.
      {3e-20F, 2e-20F, 1e-40F},                       // A denormal product.
      {1e-40F, 3, 0},                                 // Denormal operands and results.
      {0, 5, 1e-40F},
      {1e30F, 1e-30F, -1},
      {0x1p-149F, 0.5F, -0x1p-149F}};
  // Approximate quotients and roots are right at times, but not at all of these.
  uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525U + 1013904223U;
    return 1 + static_cast<float>(state >> 9) * 0x1p-22F;
  };
  while (numbers.size() < 4 * kProbeLanes) {
    const float a = next();
    const float b = next();
    numbers.push_back({a, b, -next()});
  }
  return numbers;
}

// Each value goes through memory, so that no compiler fuses what is written apart.
std::array<float, kOperations> Expected(const Triple& numbers) {
  const auto [a, b, c] = numbers;
  const volatile float product = a * b;
  return {product + c, std::fma(a, b, c), product, a / b, std::sqrt(a)};
}

}  // namespace

Status ProbeArithmetic(Gpu* gpu) {
  std::string source = fmt::format("#define PROBE_LANES {}\n", kProbeLanes);
  source += kLanguageText;
  source += '\n';
  source += kProbeText;
  const StatusOr<std::unique_ptr<Program>> program = gpu->Build(source);
  if (!program.ok()) return program.status();
  const StatusOr<std::unique_ptr<Kernel>> kernel = (*program)->Find("probe");
  if (!kernel.ok()) return kernel.status();
  const std::vector<Triple> numbers = Numbers();
  std::vector<std::array<float, kOperations>> results(numbers.size());
  const StatusOr<std::unique_ptr<Buffer>> from = gpu->Allocate(AsBytes(numbers).size());
  if (!from.ok()) return from.status();
  const StatusOr<std::unique_ptr<Buffer>> to = gpu->Allocate(AsBytes(results).size());
  if (!to.ok()) return to.status();
  const View at = {from->get(), 0};
  const View results_at = {to->get(), 0};
  gpu->Write(at, AsBytes(numbers));
  const auto count = static_cast<int32_t>(numbers.size());
  gpu->Launch(**kernel, {(count + kProbeLanes - 1) / kProbeLanes, 1}, kProbeLanes,
              {at, results_at, count});
  gpu->Read(results_at, AsWritableBytes(results));
  if (Status done = gpu->Finish(); !done.ok()) return done;
  // By operations: the first that differs is the cause of others.
  for (size_t operation = 0; operation < kOperations; ++operation) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float expected = Expected(numbers[i])[operation];
      const float got = results[i][operation];
      if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected)) continue;
      const auto [a, b, c] = numbers[i];
      return Status(
          StatusCode::kUnimplemented,
          fmt::format("the device {} cannot give the same bits as the CPU: {} for a = {}, b = {}, "
                      "c = {} is {} there, not {}",
                      gpu->info().name, kOperationNames[operation], a, b, c, got, expected));
    }
  }
  return {};
}

}  // namespace ropeway::gpu
