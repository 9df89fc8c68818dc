// The choice of a table: what /proc/cpuinfo lists is found and chosen, ROPEWAY_ISA forces each, and
// no two tables share a function.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/test_cpu_info.h"

namespace ropeway::kernels::testing {
namespace {

// Sets ROPEWAY_ISA (nullptr: unsets it), and restores the old value.
class ScopedIsa {
 public:
  explicit ScopedIsa(const char* value) {
    const char* old = std::getenv("ROPEWAY_ISA");
    if (old != nullptr) old_ = old;
    Set(value);
  }
  ~ScopedIsa() { Set(old_ ? old_->c_str() : nullptr); }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  static void Set(const char* value) {
    if (value == nullptr) {
      unsetenv("ROPEWAY_ISA");
    } else {
      setenv("ROPEWAY_ISA", value, 1);
    }
  }
  std::optional<std::string> old_;
};

// The table's functions, as addresses: all members but the name.
std::vector<void*> Functions(const Kernels& kernels) {
  static_assert(sizeof(Kernels) % sizeof(void*) == 0 && offsetof(Kernels, name) == 0);
  std::vector<void*> functions(sizeof(Kernels) / sizeof(void*) - 1);
  std::memcpy(functions.data(), reinterpret_cast<const char*>(&kernels) + sizeof(void*),
              functions.size() * sizeof(void*));
  return functions;
}

TEST(Dispatch, ChoosesWhatTheCpuHasBest) {
  const ScopedIsa unset(nullptr);
  const Kernels* chosen = ChooseKernels(nullptr);
  ASSERT_NE(chosen, nullptr);
  EXPECT_STREQ(chosen->name, BestTable().c_str());
  const ScopedIsa empty("");
  EXPECT_EQ(ChooseKernels(nullptr), chosen);
}

TEST(Dispatch, ATableIsThereExactlyWhereTheCpuHasWhatItNeeds) {
  for (const char* name : kTableNames) {
    const Kernels* kernels = KernelsByName(name);
    EXPECT_EQ(kernels != nullptr, CpuHas(name)) << name;
    if (kernels != nullptr) {
      EXPECT_STREQ(kernels->name, name);
    }
  }
  EXPECT_EQ(KernelsByName("sse9"), nullptr);
  EXPECT_EQ(KernelsByName(""), nullptr);
}

TEST(Dispatch, RopewayIsaForcesATableOrSaysWhyNot) {
  for (const char* name : kTableNames) {
    const ScopedIsa forced(name);
    const char* error = nullptr;
    const Kernels* kernels = ChooseKernels(&error);
    if (CpuHas(name)) {
      ASSERT_NE(kernels, nullptr) << name;
      EXPECT_STREQ(kernels->name, name);
      EXPECT_EQ(error, nullptr);
    } else {
      ASSERT_EQ(kernels, nullptr) << name;
      EXPECT_NE(std::string(error).find("this CPU does not support"), std::string::npos) << error;
    }
  }
  const ScopedIsa forced("sse9");
  const char* error = nullptr;
  EXPECT_EQ(ChooseKernels(&error), nullptr);
  EXPECT_NE(std::string(error).find("ROPEWAY_ISA"), std::string::npos) << error;
  EXPECT_NE(std::string(error).find("must be reference, avx2 or avx512vnni"), std::string::npos)
      << error;
  EXPECT_EQ(ChooseKernels(nullptr), nullptr);
}

// A table that borrowed a function of another would be tested against itself.
TEST(Dispatch, NoTwoTablesShareAFunction) {
  std::set<void*> seen;
  for (const Kernels* kernels : {&kReferenceKernels, &kAvx2Kernels, &kAvx512VnniKernels}) {
    for (void* function : Functions(*kernels)) {
      ASSERT_NE(function, nullptr) << kernels->name;
      EXPECT_TRUE(seen.insert(function).second) << kernels->name;
    }
  }
}

}  // namespace
}  // namespace ropeway::kernels::testing
