// For tests: the OpenCL device that they run on.
#ifndef ROPEWAY_GPU_TEST_GPU_H_
#define ROPEWAY_GPU_TEST_GPU_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/gpu.h"
#include "gpu/opencl.h"

namespace ropeway::gpu::testing {

// The device ROPEWAY_TEST_OPENCL (a number), or the first one: PoCL's, where nothing else is
// installed. A test fails without one.
inline std::unique_ptr<Gpu> OpenTestGpu() {
  const char* const index = std::getenv("ROPEWAY_TEST_OPENCL");
  StatusOr<std::unique_ptr<Gpu>> gpu = OpenOpenCl(index == nullptr ? 0 : std::atoi(index));
  EXPECT_TRUE(gpu.ok()) << gpu.status().message();
  return gpu.ok() ? *std::move(gpu) : nullptr;
}

// Device memory with a copy of the values. It must be kept until the copy is done: see Finish.
template <typename T>
std::unique_ptr<Buffer> Upload(Gpu* gpu, const std::vector<T>& values) {
  StatusOr<std::unique_ptr<Buffer>> buffer = gpu->Allocate(values.size() * sizeof(T));
  EXPECT_TRUE(buffer.ok()) << buffer.status().message();
  gpu->Write({buffer->get(), 0}, std::as_bytes(std::span(values)));
  const Status done = gpu->Finish();
  EXPECT_TRUE(done.ok()) << done.message();
  return *std::move(buffer);
}

// `count` values at the view, once all that was asked for has happened.
template <typename T>
std::vector<T> Download(Gpu* gpu, View from, size_t count) {
  std::vector<T> values(count);
  gpu->Read(from, std::as_writable_bytes(std::span(values)));
  const Status done = gpu->Finish();
  EXPECT_TRUE(done.ok()) << done.message();
  return values;
}

}  // namespace ropeway::gpu::testing

#endif  // ROPEWAY_GPU_TEST_GPU_H_
