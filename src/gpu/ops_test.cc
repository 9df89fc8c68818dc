// Ops with a device that fails. Its operations are tested beside (rows_test.cc and others).
#include "gpu/ops.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace ropeway::gpu {
namespace {

class AnyProgram final : public Program {
 public:
  StatusOr<std::unique_ptr<Kernel>> Find(const char*) override {
    return std::make_unique<Kernel>();
  }
};

// Only its compiler counts.
class FailingGpu final : public Gpu {
 public:
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Buffer>> Allocate(size_t) override {
    return Status(StatusCode::kResourceExhausted, "no memory");
  }
  StatusOr<std::unique_ptr<Program>> Build(const std::string&) override {
    ++built;
    if (fails) return Status(StatusCode::kInternal, "not compiled");
    return std::unique_ptr<Program>(std::make_unique<AnyProgram>());
  }
  void Write(View, std::span<const std::byte>) override {}
  void Read(View, std::span<std::byte>) override {}
  void Launch(const Kernel&, Groups, int, std::initializer_list<Argument>) override {}
  Status Finish() override { return {}; }

  bool fails = false;
  int built = 0;

 private:
  DeviceInfo info_;
};

TEST(OpsTypes, ATypeThatDoesNotCompileIsTriedAgain) {
  FailingGpu gpu;
  gpu.fails = true;
  const std::unique_ptr<Ops> ops = Ops::MakeForTypes(&gpu);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(ops->AddType(kernels::WeightType::kQ8_0).ok());
  gpu.fails = false;
  EXPECT_TRUE(ops->AddType(kernels::WeightType::kQ8_0).ok());
  EXPECT_EQ(gpu.built, 3);
  EXPECT_TRUE(ops->AddType(kernels::WeightType::kQ8_0).ok());
  EXPECT_EQ(gpu.built, 3);
}

}  // namespace
}  // namespace ropeway::gpu
