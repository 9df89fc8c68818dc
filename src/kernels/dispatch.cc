// Which tables this CPU can run, and which one is used.
#include <cpuid.h>

#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"

namespace ropeway::kernels {
namespace {

struct Candidate {
  const Kernels* kernels;
  bool (*runs_here)();
};

// clang 16's feature test does not know f16c.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The compiler's feature test also asks the operating system whether it saves the registers.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
}

bool HasAvx512Vnni() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

// Best first.
const Candidate kCandidates[] = {
    {&kAvx512VnniKernels, HasAvx512Vnni},
    {&kAvx2Kernels, HasAvx2},
    {&kReferenceKernels, [] { return true; }},
};

}  // namespace

const Kernels* KernelsByName(const char* name) {
  for (const Candidate& candidate : kCandidates) {
    if (std::strcmp(candidate.kernels->name, name) == 0) {
      return candidate.runs_here() ? candidate.kernels : nullptr;
    }
  }
  return nullptr;
}

const Kernels* ChooseKernels(const char** error) {
  const char* forced = std::getenv("ROPEWAY_ISA");
  if (forced == nullptr || forced[0] == '\0') {
    for (const Candidate& candidate : kCandidates) {
      if (candidate.runs_here()) return candidate.kernels;
    }
    return &kReferenceKernels;
  }
  const Kernels* kernels = KernelsByName(forced);
  if (kernels != nullptr) return kernels;
  if (error != nullptr) {
    *error = "ROPEWAY_ISA must be reference, avx2 or avx512vnni";
    for (const Candidate& candidate : kCandidates) {
      if (std::strcmp(candidate.kernels->name, forced) == 0) {
        *error = "ROPEWAY_ISA names an instruction set that this CPU does not support";
      }
    }
  }
  return nullptr;
}

}  // namespace ropeway::kernels
