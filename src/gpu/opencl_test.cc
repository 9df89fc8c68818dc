#include "gpu/opencl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "gpu/constants.h"
#include "gpu/opencl_library.h"
#include "gpu/ops.h"
#include "gpu/test_gpu.h"
#include "gpu/text.h"

namespace ropeway::gpu {
namespace {

using ::testing::AllOf;
using testing::Download;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Ne;
using testing::OpenTestGpu;
using testing::Upload;

const std::string kAddScaled = std::string(kLanguageText) + R"(
KERNEL(4) add_scaled(VIEW(x), VIEW(y), float factor, int n) {
  const int i = GROUP_X() * LANES() + LANE();
  if (i < n) AT(float, x)[i] = FMA(factor, AT(float, y)[i], AT(float, x)[i]);
})";

TEST(OpenCl, ADeviceOfThisMachineIsFit) {
  const StatusOr<std::vector<OpenClDevice>> listed = ListOpenClDevices();
  ASSERT_TRUE(listed.ok()) << listed.status().message() << "; scripts/setup.sh test installs PoCL";
  const std::vector<OpenClDevice>& devices = *listed;
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
  const Status large = gpu->Allocate(size_t{1} << 60).status();
  EXPECT_EQ(large.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(large.message(), HasSubstr(std::to_string(gpu->info().max_buffer_bytes)));
  const auto program = gpu->Build("KERNEL without the language");
  EXPECT_EQ(program.status().code(), StatusCode::kInternal);
  EXPECT_THAT(program.status().message(), HasSubstr("does not compile the kernels"));
  EXPECT_THAT(program.status().message().back(), AllOf(Ne('\0'), Ne('\n')));
  EXPECT_EQ(OpenOpenCl(99).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(OpenOpenCl(99).status().message(),
              HasSubstr("no OpenCL device 99: the last one is "));
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

// The library of this machine with functions that a test replaces, which go on to `real`.
class OpenClLibraryFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    const StatusOr<const OpenClLibrary*> found = OpenClLibrary::Get();
    ASSERT_TRUE(found.ok()) << found.status().message();
    real = *found;
    library_ = *real;
    released = 0;
    most_shared = 0;
    fails = false;
  }
  std::unique_ptr<Gpu> Open() {
    StatusOr<std::unique_ptr<Gpu>> gpu = OpenOpenClWith(library_, 0);
    EXPECT_TRUE(gpu.ok()) << gpu.status().message();
    return gpu.ok() ? *std::move(gpu) : nullptr;
  }

  static inline const OpenClLibrary* real = nullptr;
  struct Planted {
    std::string meant, done, said;
  };
  static inline Planted planted;
  static inline int released = 0;
  static inline cl_ulong most_shared = 0;
  static inline bool fails = false;
  OpenClLibrary library_;
};

TEST_F(OpenClLibraryFaults, ACommandThatEndsAbnormallyIsToldByFinish) {
  library_.clGetEventInfo = [](cl_event event, cl_event_info what, size_t size, void* value,
                               size_t* used) {
    const cl_int error = real->clGetEventInfo(event, what, size, value, used);
    if (fails) *static_cast<cl_int*>(value) = CL_OUT_OF_RESOURCES;
    return error;
  };
  library_.clReleaseEvent = [](cl_event event) {
    ++released;
    return real->clReleaseEvent(event);
  };
  const std::unique_ptr<Gpu> gpu = Open();
  ASSERT_NE(gpu, nullptr);
  auto program = gpu->Build(kAddScaled);
  ASSERT_TRUE(program.ok());
  auto kernel = (*program)->Find("add_scaled");
  ASSERT_TRUE(kernel.ok());
  const auto x = Upload<float>(gpu.get(), {1});
  released = 0;
  float y = 2;
  gpu->Write({x.get(), 0}, std::as_bytes(std::span(&y, 1)));
  gpu->Launch(**kernel, {1, 1}, 4, {View{x.get(), 0}, View{x.get(), 0}, 0.5F, 1});
  gpu->Read({x.get(), 0}, std::as_writable_bytes(std::span(&y, 1)));
  EXPECT_TRUE(gpu->Finish().ok());
  EXPECT_EQ(released, 3);
  EXPECT_EQ(y, 3);
  gpu->Launch(**kernel, {1, 1}, 4, {View{x.get(), 0}, View{x.get(), 0}, 0.5F, 1});
  fails = true;
  const Status lost = gpu->Finish();
  EXPECT_EQ(lost.code(), StatusCode::kInternal);
  EXPECT_THAT(lost.message(), HasSubstr("ended abnormally: CL_OUT_OF_RESOURCES"));
  EXPECT_EQ(released, 4);
}

// A device whose compiler makes of one expression another is not used, and the operation is named.
TEST_F(OpenClLibraryFaults, ADeviceThatComputesOtherBitsIsRejected) {
  library_.clCreateProgramWithSource = [](cl_context context, cl_uint count, const char** texts,
                                          const size_t*, cl_int* error) {
    std::string text = texts[0];
    const size_t at = text.find(planted.meant);
    if (at != std::string::npos) text.replace(at, planted.meant.size(), planted.done);
    const char* changed = text.c_str();
    return real->clCreateProgramWithSource(context, count, &changed, nullptr, error);
  };
  for (const Planted& fault :
       {Planted{"to[0] = a * b + c", "to[0] = fma(a, b, c)", "a * b + c (with two roundings) for"},
        {"to[1] = FMA(a, b, c)", "to[1] = a * b + c", "the fused a * b + c for"},
        {"to[2] = a * b;", "to[2] = fabs(a * b) < 0x1p-126f ? 0.0f : a * b;", "a * b for"},
        {"to[3] = a / b", "to[3] = a * (1.0f / b)", "a / b for"},
        {"to[4] = SQRT(a)", "to[4] = a * (1.0f / sqrt(a))", "sqrt(a) for"}}) {
    planted = fault;
    const Status rejected = OpenOpenClWith(library_, 0).status();
    EXPECT_EQ(rejected.code(), StatusCode::kUnimplemented) << fault.done;
    EXPECT_THAT(rejected.message(), HasSubstr(fault.said));
  }
}

// A loader that knows no driver, and a driver without a device.
TEST_F(OpenClLibraryFaults, NoDeviceIsSaidWithWhatIsMissing) {
  OpenClLibrary no_device = library_;
  no_device.clGetDeviceIDs = [](cl_platform_id, cl_device_type, cl_uint, cl_device_id*, cl_uint*) {
    return cl_int{CL_DEVICE_NOT_FOUND};
  };
  OpenClLibrary no_driver = library_;
  no_driver.clGetPlatformIDs = [](cl_uint, cl_platform_id*, cl_uint* count) {
    *count = 0;
    return cl_int{-1001};  // CL_PLATFORM_NOT_FOUND_KHR.
  };
  for (const OpenClLibrary& library : {no_device, no_driver}) {
    const Status none = OpenOpenClWith(library, 0).status();
    EXPECT_EQ(none.code(), StatusCode::kNotFound);
    EXPECT_THAT(none.message(), HasSubstr("no OpenCL device was found: the GPU's driver"));
    EXPECT_EQ(ListOpenClDevicesWith(library).status().message(), none.message());
  }
}

// As of a compiler that cannot write into its folder.
TEST_F(OpenClLibraryFaults, ACompilerThatSaysNothingIsSaidByItsError) {
  library_.clBuildProgram = [](cl_program, cl_uint, const cl_device_id*, const char*,
                               void(CL_CALLBACK*)(cl_program, void*),
                               void*) { return cl_int{CL_BUILD_PROGRAM_FAILURE}; };
  EXPECT_THAT(OpenOpenClWith(library_, 0).status().message(),
              EndsWith(" does not compile the kernels: CL_BUILD_PROGRAM_FAILURE"));
}

TEST_F(OpenClLibraryFaults, ADeviceWithGroupsTooSmallIsRejected) {
  library_.clGetDeviceInfo = [](cl_device_id device, cl_device_info what, size_t size, void* value,
                                size_t* used) {
    const cl_int error = real->clGetDeviceInfo(device, what, size, value, used);
    if (fails && what == CL_DEVICE_MAX_WORK_GROUP_SIZE) *static_cast<size_t*>(value) = 255;
    if (!fails && what == CL_DEVICE_LOCAL_MEM_SIZE) *static_cast<cl_ulong*>(value) = 16384;
    return error;
  };
  const Status shared = OpenOpenClWith(library_, 0).status();
  EXPECT_EQ(shared.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(shared.message(), HasSubstr("share at most 16384 bytes"));
  fails = true;
  const Status lanes = OpenOpenClWith(library_, 0).status();
  EXPECT_EQ(lanes.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(lanes.message(), HasSubstr("at most 255 lanes"));
}

// As PoCL says them of the kernels of this machine.
TEST_F(OpenClLibraryFaults, AKernelFitsItsGroup) {
  library_.clGetKernelWorkGroupInfo = [](cl_kernel kernel, cl_device_id device,
                                         cl_kernel_work_group_info what, size_t size, void* value,
                                         size_t* used) {
    const cl_int error = real->clGetKernelWorkGroupInfo(kernel, device, what, size, value, used);
    if (fails && what == CL_KERNEL_WORK_GROUP_SIZE) *static_cast<size_t*>(value) = 3;
    cl_ulong shared = 0;
    real->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared,
                                   nullptr);
    most_shared = std::max(most_shared, shared);
    return error;
  };
  const std::unique_ptr<Gpu> gpu = Open();
  ASSERT_NE(gpu, nullptr);
  {
    auto ops = Ops::Make(gpu.get());
    ASSERT_TRUE(ops.ok()) << ops.status().message();
    for (const kernels::WeightType type : kernels::kWeightTypes) {
      ASSERT_TRUE((*ops)->AddType(type).ok());
    }
    EXPECT_LE(most_shared, kMostSharedBytes);
    EXPECT_GT(most_shared, kMostSharedBytes / 2);
  }
  auto program = gpu->Build(kAddScaled);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE((*program)->Find("add_scaled").ok());
  fails = true;
  const Status found = (*program)->Find("add_scaled").status();
  EXPECT_THAT(found.message(), HasSubstr("add_scaled by at most 3 lanes, not 4"));
}

// As with drivers that take memory when it is first used.
TEST_F(OpenClLibraryFaults, MemoryThatIsNotThereIsToldByAllocate) {
  library_.clEnqueueWriteBuffer = [](cl_command_queue queue, cl_mem memory, cl_bool blocks,
                                     size_t at, size_t size, const void* bytes, cl_uint count,
                                     const cl_event* events, cl_event* event) {
    if (fails) return cl_int{CL_MEM_OBJECT_ALLOCATION_FAILURE};
    return real->clEnqueueWriteBuffer(queue, memory, blocks, at, size, bytes, count, events, event);
  };
  library_.clReleaseMemObject = [](cl_mem memory) {
    ++released;
    return real->clReleaseMemObject(memory);
  };
  const std::unique_ptr<Gpu> gpu = Open();
  ASSERT_NE(gpu, nullptr);
  released = 0;
  fails = true;
  EXPECT_EQ(gpu->Allocate(100).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(released, 1);
  fails = false;
  EXPECT_TRUE(gpu->Allocate(100).ok());
  EXPECT_TRUE(gpu->Finish().ok());
}

}  // namespace
}  // namespace ropeway::gpu
