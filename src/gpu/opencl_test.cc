#include "gpu/opencl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/test_gpu.h"
#include "gpu/text.h"

namespace ropeway::gpu {
namespace {

using testing::Download;
using ::testing::HasSubstr;
using testing::OpenTestGpu;
using testing::Upload;

const std::string kAddScaled = std::string(kLanguageText) + R"(
KERNEL add_scaled(VIEW(x), VIEW(y), float factor, int n) {
  const int i = GROUP_X() * LANES() + LANE();
  if (i < n) AT(float, x)[i] = FMA(factor, AT(float, y)[i], AT(float, x)[i]);
})";

TEST(OpenCl, ADeviceOfThisMachineIsFit) {
  const std::vector<OpenClDevice> devices = ListOpenClDevices();
  ASSERT_FALSE(devices.empty()) << "scripts/setup.sh test installs PoCL";
  EXPECT_EQ(devices[0].unfit, "");
  EXPECT_GT(devices[0].info.memory_bytes, 0U);
  EXPECT_FALSE(devices[0].info.name.empty());
}

TEST(OpenCl, RunsAKernel) {
  const std::unique_ptr<Gpu> gpu = OpenTestGpu();
  ASSERT_NE(gpu, nullptr);
  auto program = gpu->Build(kAddScaled);
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto kernel = (*program)->Find("add_scaled");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto x = Upload<float>(gpu.get(), {9, 1, 2, 3, 4, 5});
  const auto y = Upload<float>(gpu.get(), {10, 20, 30, 40, 50});
  gpu->Launch(**kernel, {2, 1}, 4, {View{x.get(), 4}, View{y.get(), 0}, 0.5F, 5});
  gpu->Launch(**kernel, {0, 1}, 4, {View{x.get(), 4}, View{y.get(), 0}, 0.5F, 5});
  EXPECT_EQ(Download<float>(gpu.get(), {x.get(), 0}, 6),
            (std::vector<float>{9, 6, 12, 18, 24, 30}));
}

TEST(OpenCl, WhatCannotBeIsSaid) {
  const std::unique_ptr<Gpu> gpu = OpenTestGpu();
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->Allocate(size_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
  const auto program = gpu->Build("KERNEL without the language");
  EXPECT_EQ(program.status().code(), StatusCode::kInternal);
  EXPECT_THAT(program.status().message(), HasSubstr("does not compile the kernels"));
  EXPECT_EQ(OpenOpenCl(99).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenOpenCl(-1).status().code(), StatusCode::kNotFound);
}

TEST(OpenCl, AFailureIsToldByFinishAndStays) {
  const std::unique_ptr<Gpu> gpu = OpenTestGpu();
  ASSERT_NE(gpu, nullptr);
  auto program = gpu->Build(kAddScaled);
  ASSERT_TRUE(program.ok());
  auto kernel = (*program)->Find("add_scaled");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ((*program)->Find("subtract").status().code(), StatusCode::kInternal);
  EXPECT_TRUE(gpu->Finish().ok());
  gpu->Launch(**kernel, {1, 1}, 4, {1.0F});
  for (int i = 0; i < 2; ++i) {
    const Status lost = gpu->Finish();
    EXPECT_EQ(lost.code(), StatusCode::kInternal);
    EXPECT_THAT(lost.message(), HasSubstr("is lost"));
  }
}

}  // namespace
}  // namespace ropeway::gpu
