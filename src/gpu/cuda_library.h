// Internal to this room and its tests: the functions of CUDA's driver, libcuda.so.1, and of its
// compiler, libnvrtc.so, and what of their types is needed. No header of CUDA is: their binary
// interface is stable, and the loader asks for its versions by name.
#ifndef ROPEWAY_GPU_CUDA_LIBRARY_H_
#define ROPEWAY_GPU_CUDA_LIBRARY_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

using CuResult = int;     // 0: success.
using NvrtcResult = int;  // 0: success.
using CuDevice = int;
using CuPointer = unsigned long long;  // NOLINT(google-runtime-int): as CUDA has it.
using CuContext = struct CuContextOfDriver*;
using CuModule = struct CuModuleOfDriver*;
using CuFunction = struct CuFunctionOfDriver*;
using CuStream = struct CuStreamOfDriver*;
using NvrtcProgram = struct NvrtcProgramOfCompiler*;

// Attributes of a device.
inline constexpr int kCuComputeCapabilityMajor = 75;
inline constexpr int kCuComputeCapabilityMinor = 76;
inline constexpr unsigned kCuStreamNonBlocking = 1;

// Of the compiler: without contraction, flushed denormals or approximate division, which would
// change bits.
inline constexpr const char* kCudaOptions[] = {"--fmad=false", "--prec-div=true",
                                               "--prec-sqrt=true", "--ftz=false"};

struct CudaLibrary {
  // kNotFound, with a sentence, where the driver is not there, lacks a function, or finds no
  // device. What is loaded stays to the end.
  static StatusOr<const CudaLibrary*> Get();

  // Empty: the compiler's functions are there. Else why they are not.
  std::string compiler_fault;

// clang-format off
// F(name here, name in the library, types of the parameters)
#define ROPEWAY_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuInit, cuInit, unsigned) \
  F(cuGetErrorName, cuGetErrorName, CuResult, const char**) \
  F(cuDriverGetVersion, cuDriverGetVersion, int*) \
  F(cuDeviceGetCount, cuDeviceGetCount, int*) \
  F(cuDeviceGet, cuDeviceGet, CuDevice*, int) \
  F(cuDeviceGetName, cuDeviceGetName, char*, int, CuDevice) \
  F(cuDeviceTotalMem, cuDeviceTotalMem_v2, size_t*, CuDevice) \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute, int*, int, CuDevice) \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, CuContext*, CuDevice) \
  F(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, CuDevice) \
  F(cuCtxPushCurrent, cuCtxPushCurrent_v2, CuContext) \
  F(cuCtxPopCurrent, cuCtxPopCurrent_v2, CuContext*) \
  F(cuStreamCreate, cuStreamCreate, CuStream*, unsigned) \
  F(cuStreamDestroy, cuStreamDestroy_v2, CuStream) \
  F(cuStreamSynchronize, cuStreamSynchronize, CuStream) \
  F(cuMemAlloc, cuMemAlloc_v2, CuPointer*, size_t) \
  F(cuMemFree, cuMemFree_v2, CuPointer) \
  F(cuMemHostAlloc, cuMemHostAlloc, void**, size_t, unsigned) \
  F(cuMemFreeHost, cuMemFreeHost, void*) \
  F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, CuPointer, const void*, size_t, CuStream) \
  F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, void*, CuPointer, size_t, CuStream) \
  F(cuModuleLoadData, cuModuleLoadData, CuModule*, const void*) \
  F(cuModuleUnload, cuModuleUnload, CuModule) \
  F(cuModuleGetFunction, cuModuleGetFunction, CuFunction*, CuModule, const char*) \
  F(cuLaunchKernel, cuLaunchKernel, CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, unsigned, CuStream, void**, void**)
#define ROPEWAY_CUDA_COMPILER_FUNCTIONS(F) \
  F(nvrtcVersion, nvrtcVersion, int*, int*) \
  F(nvrtcGetNumSupportedArchs, nvrtcGetNumSupportedArchs, int*) \
  F(nvrtcGetSupportedArchs, nvrtcGetSupportedArchs, int*) \
  F(nvrtcCreateProgram, nvrtcCreateProgram, NvrtcProgram*, const char*, const char*, int, \
    const char* const*, const char* const*) \
  F(nvrtcDestroyProgram, nvrtcDestroyProgram, NvrtcProgram*) \
  F(nvrtcCompileProgram, nvrtcCompileProgram, NvrtcProgram, int, const char* const*) \
  F(nvrtcGetCUBINSize, nvrtcGetCUBINSize, NvrtcProgram, size_t*) \
  F(nvrtcGetCUBIN, nvrtcGetCUBIN, NvrtcProgram, char*) \
  F(nvrtcGetPTXSize, nvrtcGetPTXSize, NvrtcProgram, size_t*) \
  F(nvrtcGetPTX, nvrtcGetPTX, NvrtcProgram, char*) \
  F(nvrtcGetProgramLogSize, nvrtcGetProgramLogSize, NvrtcProgram, size_t*) \
  F(nvrtcGetProgramLog, nvrtcGetProgramLog, NvrtcProgram, char*)
// clang-format on
#define ROPEWAY_DECLARE(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  ROPEWAY_CUDA_DRIVER_FUNCTIONS(ROPEWAY_DECLARE)
  ROPEWAY_CUDA_COMPILER_FUNCTIONS(ROPEWAY_DECLARE)
#undef ROPEWAY_DECLARE
};

// "CUDA_ERROR_OUT_OF_MEMORY", or the number.
std::string CudaErrorName(const CudaLibrary& cuda, CuResult error);

// Whether a driver loads what a compiler of this major version makes: one that is older than the
// compiler knows neither its PTX nor its binaries. `driver` is as cuDriverGetVersion has it: 12040
// is 12.4.
inline bool DriverLoadsFrom(int compiler_major, int driver) {
  return compiler_major <= driver / 1000;
}

struct CudaDevice;

// ListCudaDevices and OpenCuda (cuda.h) with this library, which must outlive the result. Compiled
// programs are kept in the folder `cache`, if it is not empty.
StatusOr<std::vector<CudaDevice>> ListCudaDevicesWith(const CudaLibrary& cuda);
StatusOr<std::unique_ptr<Gpu>> OpenCudaWith(const CudaLibrary& cuda, int index,
                                            const std::filesystem::path& cache = {});

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_CUDA_LIBRARY_H_
