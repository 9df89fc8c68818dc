// CUDA's half of the Gpu seam, against a driver made of memory of this process: what is asked of
// the driver, and what is said when it fails. tests/gpu_nvrtc_test.py has the real compiler.
#include "gpu/cuda.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gpu/cuda_library.h"
#include "gpu/test_gpu.h"

namespace ropeway::gpu {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using testing::Download;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Upload;

constexpr CuResult kOutOfMemory = 2;
constexpr CuResult kInvalidImage = 200;
constexpr CuResult kNoContext = 201;
constexpr CuResult kNotFoundByDriver = 500;
constexpr CuResult kLaunchFailed = 719;

// What happened at the driver since the test began.
struct FakeDriver {
  int devices = 1;
  std::vector<int> architectures = {75, 90, 120};
  int compiled = 0;
  std::vector<std::string> options;
  std::string source;
  std::vector<unsigned> launched;  // Of the last launch: groups x, y, z and lanes x, y, z.
  CuResult failure = 0;            // What waiting finds.
  int contexts = 0;
  int streams = 0;
  int modules = 0;
  int refusals = 0;
  std::string loaded;              // By the last of them.
  std::vector<CuContext> current;  // The thread's stack of contexts.
  bool contracts = false;          // The arithmetic of its device.
  std::map<CuPointer, size_t> memory;
  bool pins = true;  // Whether there is memory to pin.
  int pinned = 0;
};
FakeDriver fake;

template <typename T>
T Handle(uintptr_t number) {
  return reinterpret_cast<T>(number);
}

// The only kernel: y[i] = factor * x[i] for i < n, of VIEW(x), VIEW(y), float factor, int n.
CuResult LaunchScale(void** places) {
  const auto at = [&](int view) {
    return *static_cast<CuPointer*>(places[view]) + *static_cast<uint64_t*>(places[view + 1]);
  };
  const auto* x = Handle<const float*>(at(0));
  auto* y = Handle<float*>(at(2));
  for (int i = 0; i < *static_cast<int32_t*>(places[5]); ++i) {
    y[i] = *static_cast<float*>(places[4]) * x[i];
  }
  return 0;
}

// What device/probe.cl has: of VIEW(numbers), VIEW(results), int count.
CuResult LaunchProbe(void** places) {
  const auto* numbers = Handle<const float*>(*static_cast<CuPointer*>(places[0]));
  auto* results = Handle<float*>(*static_cast<CuPointer*>(places[2]));
  for (int i = 0; i < *static_cast<int32_t*>(places[4]); ++i, numbers += 3, results += 5) {
    const float a = numbers[0];
    const float b = numbers[1];
    const volatile float product = a * b;
    results[1] = std::fma(a, b, numbers[2]);
    results[0] = fake.contracts ? results[1] : product + numbers[2];
    results[2] = product;
    results[3] = a / b;
    results[4] = std::sqrt(a);
  }
  return 0;
}

// Whether the thread's context is the device's.
bool Entered() { return !fake.current.empty() && fake.current.back() == Handle<CuContext>(40); }

CuResult FakeLoad(CuModule* module, const void* image) {
  if (!Entered()) return kNoContext;
  fake.loaded = static_cast<const char*>(image);
  if (fake.loaded != "PTX of it" && fake.loaded != "CUBIN") return kInvalidImage;
  ++fake.modules;
  *module = Handle<CuModule>(5);
  return 0;
}

CudaLibrary FakeLibrary() {
  fake = {};
  CudaLibrary cuda;
  cuda.cuGetErrorName = [](CuResult error, const char** name) {
    *name = error == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : nullptr;
    return *name == nullptr ? 1 : 0;
  };
  cuda.cuDriverGetVersion = [](int* version) { return *version = 13020, 0; };
  cuda.cuDeviceGetCount = [](int* count) { return *count = fake.devices, 0; };
  cuda.cuDeviceGet = [](CuDevice* device, int index) { return *device = index + 40, 0; };
  cuda.cuDeviceGetName = [](char* name, int size, CuDevice) {
    std::strncpy(name, "Fake 1000", static_cast<size_t>(size));
    return 0;
  };
  cuda.cuDeviceTotalMem = [](size_t* bytes, CuDevice) { return *bytes = 1 << 20, 0; };
  cuda.cuDeviceGetAttribute = [](int* value, int which, CuDevice) {
    *value = which == kCuComputeCapabilityMajor ? 10 : 3;
    return 0;
  };
  cuda.cuDevicePrimaryCtxRetain = [](CuContext* context, CuDevice device) {
    ++fake.contexts;
    return *context = Handle<CuContext>(static_cast<uintptr_t>(device)), 0;
  };
  cuda.cuDevicePrimaryCtxRelease = [](CuDevice) { return --fake.contexts, 0; };
  cuda.cuCtxPushCurrent = [](CuContext context) { return fake.current.push_back(context), 0; };
  cuda.cuCtxPopCurrent = [](CuContext* context) {
    *context = fake.current.back();
    return fake.current.pop_back(), 0;
  };
  cuda.cuStreamCreate = [](CuStream* stream, unsigned) {
    ++fake.streams;
    return *stream = Handle<CuStream>(77), 0;
  };
  cuda.cuStreamDestroy = [](CuStream) { return --fake.streams, 0; };
  cuda.cuStreamSynchronize = [](CuStream) { return Entered() ? fake.failure : kNoContext; };
  cuda.cuMemAlloc = [](CuPointer* memory, size_t size) {
    if (!Entered()) return kNoContext;
    if (size > 1 << 20) return kOutOfMemory;
    *memory = reinterpret_cast<CuPointer>(std::calloc(size, 1));
    fake.memory[*memory] = size;
    return 0;
  };
  cuda.cuMemFree = [](CuPointer memory) {
    EXPECT_TRUE(Entered());
    std::free(Handle<void*>(memory));
    return fake.memory.erase(memory) == 1 ? 0 : 1;
  };
  cuda.cuMemHostAlloc = [](void** memory, size_t size, unsigned) {
    if (!Entered()) return kNoContext;
    if (!fake.pins) return kOutOfMemory;
    ++fake.pinned;
    return *memory = std::malloc(size), 0;
  };
  cuda.cuMemFreeHost = [](void* memory) {
    EXPECT_TRUE(Entered());
    std::free(memory);
    return --fake.pinned, 0;
  };
  cuda.cuMemcpyHtoDAsync = [](CuPointer to, const void* from, size_t size, CuStream stream) {
    std::memcpy(Handle<void*>(to), from, size);
    return stream == Handle<CuStream>(77) && Entered() ? 0 : 1;
  };
  cuda.cuMemcpyDtoHAsync = [](void* to, CuPointer from, size_t size, CuStream stream) {
    std::memcpy(to, Handle<const void*>(from), size);
    return stream == Handle<CuStream>(77) && Entered() ? 0 : 1;
  };
  cuda.cuModuleLoadData = FakeLoad;
  cuda.cuModuleUnload = [](CuModule) {
    EXPECT_TRUE(Entered());
    return --fake.modules, 0;
  };
  cuda.cuModuleGetFunction = [](CuFunction* function, CuModule, const char* name) {
    const std::string wanted = name;
    *function = Handle<CuFunction>(wanted == "probe" ? 7 : 6);
    return wanted == "scale" || wanted == "probe" ? 0 : kNotFoundByDriver;
  };
  cuda.cuLaunchKernel = [](CuFunction function, unsigned x, unsigned y, unsigned z, unsigned lanes,
                           unsigned lanes_y, unsigned lanes_z, unsigned, CuStream, void** places,
                           void**) {
    fake.launched = {x, y, z, lanes, lanes_y, lanes_z};
    if (!Entered()) return kNoContext;
    return function == Handle<CuFunction>(7) ? LaunchProbe(places) : LaunchScale(places);
  };
  cuda.nvrtcVersion = [](int* major, int* minor) {
    *major = 13;
    return *minor = 1, 0;
  };
  cuda.nvrtcGetNumSupportedArchs = [](int* count) {
    return *count = static_cast<int>(fake.architectures.size()), 0;
  };
  cuda.nvrtcGetSupportedArchs = [](int* known) {
    std::copy(fake.architectures.begin(), fake.architectures.end(), known);
    return 0;
  };
  cuda.nvrtcCreateProgram = [](NvrtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
    fake.source = source;
    return *program = Handle<NvrtcProgram>(9), 0;
  };
  cuda.nvrtcDestroyProgram = [](NvrtcProgram*) { return 0; };
  cuda.nvrtcCompileProgram = [](NvrtcProgram, int count, const char* const* options) {
    ++fake.compiled;
    fake.options.assign(options, options + count);
    return fake.source == "good" ||
                   fake.source.find("KERNEL(PROBE_LANES) probe(") != std::string::npos
               ? 0
               : 6;
  };
  cuda.nvrtcGetPTXSize = [](NvrtcProgram, size_t* size) { return *size = 10, 0; };
  cuda.nvrtcGetPTX = [](NvrtcProgram, char* ptx) { return std::memcpy(ptx, "PTX of it", 10), 0; };
  cuda.nvrtcGetCUBINSize = [](NvrtcProgram, size_t* size) { return *size = 6, 0; };
  cuda.nvrtcGetCUBIN = [](NvrtcProgram, char* cubin) { return std::memcpy(cubin, "CUBIN", 6), 0; };
  cuda.nvrtcGetProgramLogSize = [](NvrtcProgram, size_t* size) { return *size = 7, 0; };
  cuda.nvrtcGetProgramLog = [](NvrtcProgram, char* log) {
    return std::memcpy(log, "line 1", 7), 0;
  };
  return cuda;
}

class Cuda : public ::testing::Test {
 protected:
  ~Cuda() override {
    gpu_.reset();
    EXPECT_EQ(fake.contexts, 0);
    EXPECT_EQ(fake.streams, 0);
    EXPECT_EQ(fake.modules, 0);
    EXPECT_TRUE(fake.memory.empty());
    EXPECT_EQ(fake.pinned, 0);
    EXPECT_TRUE(fake.current.empty());
  }
  Gpu* Open() {
    StatusOr<std::unique_ptr<Gpu>> gpu = OpenCudaWith(cuda_, 0);
    EXPECT_TRUE(gpu.ok()) << gpu.status().message();
    gpu_ = gpu.ok() ? *std::move(gpu) : nullptr;
    return gpu_.get();
  }

  const CudaLibrary cuda_ = FakeLibrary();
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(Cuda, RunsAKernel) {
  Gpu* const gpu = Open();
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->info().name, "Fake 1000");
  EXPECT_EQ(gpu->info().driver, "CUDA 13.2");
  EXPECT_EQ(gpu->info().memory_bytes, 1U << 20);
  auto program = gpu->Build("good");
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto kernel = (*program)->Find("scale");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto x = Upload<float>(gpu, {9, 1, 2, 3});
  const auto y = Upload<float>(gpu, {5, 5, 5, 5, 5});
  gpu->Launch(**kernel, {2, 3}, 64, {View{x.get(), 4}, View{y.get(), 8}, 0.5F, 3});
  EXPECT_THAT(fake.launched, ElementsAre(2, 3, 1, 64, 1, 1));
  EXPECT_THAT(Download<float>(gpu, {y.get(), 0}, 5), ElementsAre(5, 5, 0.5F, 1, 1.5F));
  fake.launched.clear();
  gpu->Launch(**kernel, {0, 3}, 64, {});
  EXPECT_TRUE(fake.launched.empty());
}

TEST_F(Cuda, CompilesExactlyForTheDevice) {
  Gpu* const gpu = Open();
  ASSERT_NE(gpu, nullptr);
  ASSERT_TRUE(gpu->Build("good").ok());
  // The device is a 10.3, and the compiler knows 9.0 and 12.0.
  EXPECT_THAT(fake.options, ElementsAre("--gpu-architecture=compute_90", "--fmad=false",
                                        "--prec-div=true", "--prec-sqrt=true", "--ftz=false"));
  EXPECT_EQ(fake.loaded, "PTX of it");
  // An older driver does not know the compiler's PTX, but its own device's instructions.
  fake.architectures.push_back(103);
  ASSERT_TRUE(Open()->Build("good").ok());
  EXPECT_THAT(fake.options, Contains("--gpu-architecture=sm_103"));
  EXPECT_EQ(fake.loaded, "CUBIN");
}

// Whether opening the device, which builds a program, compiles it.
TEST_F(Cuda, WhatWasCompiledIsKept) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / fmt::format("gpu_kernels.{}", getpid());
  const auto compiles = [&] {
    const int before = fake.compiled;
    const auto gpu = OpenCudaWith(cuda_, 0, folder / "not" / "yet");
    EXPECT_TRUE(gpu.ok()) << gpu.status().message();
    return fake.compiled - before;
  };
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(compiles(), 0);
  EXPECT_EQ(fake.loaded, "PTX of it");
  // One file, and nothing half-done.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "not" / "yet")) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1U);
  const auto size = std::filesystem::file_size(files[0]);
  for (const uintmax_t cut : {uintmax_t{0}, uintmax_t{30}, size - 1}) {
    std::filesystem::resize_file(files[0], cut);
    EXPECT_EQ(compiles(), 1) << cut;
    EXPECT_EQ(compiles(), 0) << cut;
  }
  {
    std::fstream file(files[0], std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size) - 3);
    file.put('!');
  }
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(compiles(), 0);
  // Another driver, compiler or device has its own.
  CudaLibrary other = cuda_;
  other.cuDriverGetVersion = [](int* version) { return *version = 13030, 0; };
  const int before = fake.compiled;
  ASSERT_TRUE(OpenCudaWith(other, 0, folder / "not" / "yet").ok());
  EXPECT_EQ(fake.compiled, before + 1);
  fake.architectures.push_back(103);
  EXPECT_EQ(compiles(), 1);
  std::filesystem::remove_all(folder);
}

// What the driver no longer loads is compiled again.
TEST_F(Cuda, WhatWasKeptMayBeRefused) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / fmt::format("gpu_refused.{}", getpid());
  ASSERT_TRUE(OpenCudaWith(cuda_, 0, folder).ok());
  CudaLibrary once = cuda_;
  fake.refusals = 1;
  once.cuModuleLoadData = [](CuModule* module, const void* image) {
    if (fake.refusals-- > 0) return kInvalidImage;
    return FakeLoad(module, image);
  };
  const int before = fake.compiled;
  EXPECT_TRUE(OpenCudaWith(once, 0, folder).ok());
  EXPECT_EQ(fake.compiled, before + 1);
  std::filesystem::remove_all(folder);
}

// A folder that cannot be is no failure.
TEST_F(Cuda, NothingIsKeptWhereNothingCanBe) {
  EXPECT_TRUE(OpenCudaWith(cuda_, 0, "/dev/null/kernels").ok());
}

TEST(CudaCompiler, IsOneThatTheDriverKnows) {
  EXPECT_TRUE(DriverLoadsFrom(12, 12000));
  EXPECT_TRUE(DriverLoadsFrom(11, 12040));
  EXPECT_TRUE(DriverLoadsFrom(13, 13020));
  EXPECT_FALSE(DriverLoadsFrom(13, 12090));
  EXPECT_FALSE(DriverLoadsFrom(12, 11080));
}

TEST_F(Cuda, ADeviceThatCannotBeUsedIsListedWithTheReason) {
  const auto unfit = [](const CudaLibrary& cuda) {
    const std::vector<CudaDevice> devices = *ListCudaDevicesWith(cuda);
    EXPECT_EQ(devices.size(), 1U);
    EXPECT_EQ(devices.at(0).info.name, "Fake 1000");
    const Status status = OpenCudaWith(cuda, 0).status();
    EXPECT_EQ(status.ok(), devices[0].unfit.empty());
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
      EXPECT_THAT(status.message(), HasSubstr("Fake 1000"));
      EXPECT_THAT(status.message(), HasSubstr(devices[0].unfit));
    }
    return devices[0].unfit;
  };
  EXPECT_EQ(unfit(cuda_), "");
  fake.architectures = {110, 120};
  EXPECT_THAT(unfit(cuda_), HasSubstr("does not compile for its compute capability, 10.3"));
  CudaLibrary without = cuda_;
  without.compiler_fault = "the compiler is missing";
  without.nvrtcGetNumSupportedArchs = nullptr;
  EXPECT_EQ(unfit(without), "the compiler is missing");
}

TEST_F(Cuda, ADeviceThatComputesOtherBitsIsRejected) {
  fake.contracts = true;
  const Status rejected = OpenCudaWith(cuda_, 0).status();
  EXPECT_EQ(rejected.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(rejected.message(), HasSubstr("Fake 1000"));
  EXPECT_THAT(rejected.message(), HasSubstr("a * b + c (with two roundings) for"));
}

// Another library of the thread's has its own.
TEST_F(Cuda, TheThreadsContextStays) {
  const auto other = Handle<CuContext>(3);
  fake.current = {other};
  Gpu* const gpu = Open();
  ASSERT_NE(gpu, nullptr);
  EXPECT_THAT(fake.current, ElementsAre(other));
  {
    auto program = gpu->Build("good");
    ASSERT_TRUE(program.ok());
    auto kernel = (*program)->Find("scale");
    ASSERT_TRUE(kernel.ok());
    const auto x = Upload<float>(gpu, {2});
    gpu->Launch(**kernel, {1, 1}, 64, {View{x.get(), 0}, View{x.get(), 0}, 0.5F, 1});
    EXPECT_THAT(Download<float>(gpu, {x.get(), 0}, 1), ElementsAre(1));
    EXPECT_THAT(fake.current, ElementsAre(other));
  }
  gpu_.reset();
  EXPECT_THAT(fake.current, ElementsAre(other));
  fake.current.clear();
}

TEST_F(Cuda, WhatCannotBeIsSaid) {
  Gpu* const gpu = Open();
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->Allocate(size_t{1} << 40).status().code(), StatusCode::kResourceExhausted);
  const auto bad = gpu->Build("bad");
  EXPECT_EQ(bad.status().code(), StatusCode::kInternal);
  EXPECT_THAT(bad.status().message(), HasSubstr("does not compile the kernels"));
  EXPECT_THAT(bad.status().message(), EndsWith("line 1"));  // Without the zero behind it.
  auto program = gpu->Build("good");
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->Find("subtract").status().code(), StatusCode::kInternal);
  for (const int index : {-1, 1}) {
    const auto none = OpenCudaWith(cuda_, index);
    EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
    EXPECT_THAT(none.status().message(), HasSubstr("the last one is 0"));
  }
  fake.devices = 0;
  EXPECT_EQ(ListCudaDevicesWith(cuda_).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(OpenCudaWith(cuda_, 0).status().message(), HasSubstr("no CUDA device was found"));
}

// The driver lets the host wait for a copy to memory that is not pinned.
TEST_F(Cuda, ReadsComeToPinnedMemoryAsLongAsThereIsRoom) {
  constexpr size_t kSize = size_t{1} << 20;
  const std::vector<std::byte> nothing(kSize);
  const std::vector<std::byte> all(kSize, std::byte{7});
  for (const bool pins : {true, false}) {
    fake.pins = pins;
    Gpu* const gpu = Open();
    ASSERT_NE(gpu, nullptr);
    const auto buffer = Upload(gpu, all);
    std::vector<std::vector<std::byte>> reads(18, nothing);
    for (int round = 0; round < 2; ++round) {
      reads.assign(18, nothing);
      for (auto& bytes : reads) gpu->Read({buffer.get(), 0}, bytes);
      EXPECT_EQ(std::count(reads.begin(), reads.end(), nothing), pins ? 16 : 0);
      EXPECT_TRUE(gpu->Finish().ok());
      EXPECT_EQ(std::count(reads.begin(), reads.end(), all), 18);
    }
    reads[0] = nothing;
    gpu->Read({buffer.get(), 0}, reads[0]);
    fake.failure = kLaunchFailed;
    EXPECT_FALSE(gpu->Finish().ok());
    fake.failure = 0;
    EXPECT_EQ(reads[0] == nothing, pins);
  }
}

TEST_F(Cuda, AFailureIsToldByFinishAndStays) {
  Gpu* const gpu = Open();
  ASSERT_NE(gpu, nullptr);
  EXPECT_TRUE(gpu->Finish().ok());
  fake.failure = kLaunchFailed;
  EXPECT_FALSE(gpu->Finish().ok());
  fake.failure = 0;
  const Status lost = gpu->Finish();
  EXPECT_EQ(lost.code(), StatusCode::kInternal);
  EXPECT_THAT(lost.message(), HasSubstr("the device Fake 1000 is lost"));
  EXPECT_THAT(lost.message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
}

// On a machine without NVIDIA's driver.
TEST(CudaOfThisMachine, IsOpenedOrMissedWithAReason) {
  const StatusOr<std::unique_ptr<Gpu>> gpu = OpenCuda(0);
  if (gpu.ok()) {
    EXPECT_TRUE(ListCudaDevices().ok());
    return;
  }
  EXPECT_EQ(gpu.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(gpu.status().message(), AnyOf(HasSubstr("driver cannot be used: libcuda.so.1: "),
                                            HasSubstr("no CUDA device was found")));
  EXPECT_EQ(ListCudaDevices().status().message(), gpu.status().message());
}

}  // namespace
}  // namespace ropeway::gpu
