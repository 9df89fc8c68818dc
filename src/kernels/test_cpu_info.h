// The instruction sets that /proc/cpuinfo reports, to check dispatch.cc: so a test can tell a CPU
// that lacks an instruction set from a dispatch that misses it.
#ifndef ROPEWAY_KERNELS_TEST_CPU_INFO_H_
#define ROPEWAY_KERNELS_TEST_CPU_INFO_H_

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace ropeway::kernels::testing {

// Tables of kernels, worst first.
inline constexpr const char* kTableNames[] = {"reference", "avx2", "avx512vnni"};

inline std::set<std::string> CpuFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

// The best table for this CPU. Under an emulator /proc/cpuinfo describes another CPU; the
// environment variable ROPEWAY_TEST_BEST_TABLE then gives the right answer.
inline std::string BestTable() {
  const char* told = std::getenv("ROPEWAY_TEST_BEST_TABLE");
  if (told != nullptr) return told;
  const std::set<std::string> flags = CpuFlags();
  const auto all = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (!flags.contains(name)) return false;
    }
    return true;
  };
  if (!all({"avx2", "fma", "f16c"})) return "reference";
  return all({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}) ? "avx512vnni"
                                                                             : "avx2";
}

// Whether this CPU has what the table of that name needs.
inline bool CpuHas(const std::string& table) {
  const std::string best = BestTable();
  for (const char* name : kTableNames) {
    if (table == name) return true;
    if (best == name) return false;
  }
  return false;
}

// The table that ChooseKernels must choose: what ROPEWAY_ISA forces, else the best.
inline std::string ExpectedTable() {
  const char* forced = std::getenv("ROPEWAY_ISA");
  return forced != nullptr && forced[0] != '\0' ? forced : BestTable();
}

}  // namespace ropeway::kernels::testing

#endif  // ROPEWAY_KERNELS_TEST_CPU_INFO_H_
