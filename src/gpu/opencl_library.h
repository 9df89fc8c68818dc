// Internal to this room and its tests: the functions of libOpenCL.so.1.
#ifndef ROPEWAY_GPU_OPENCL_LIBRARY_H_
#define ROPEWAY_GPU_OPENCL_LIBRARY_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

struct OpenClLibrary {
  // kNotFound, with a sentence, where the library is not there or lacks a function. It stays loaded
  // to the end.
  static StatusOr<const OpenClLibrary*> Get();

// clang-format off
#define ROPEWAY_OPENCL_FUNCTIONS(F) \
  F(clGetPlatformIDs) F(clGetPlatformInfo) F(clGetDeviceIDs) F(clGetDeviceInfo) \
  F(clCreateContext) F(clReleaseContext) F(clCreateCommandQueue) F(clReleaseCommandQueue) \
  F(clCreateBuffer) F(clReleaseMemObject) F(clCreateProgramWithSource) F(clBuildProgram) \
  F(clGetProgramBuildInfo) F(clReleaseProgram) F(clCreateKernel) F(clReleaseKernel) \
  F(clSetKernelArg) F(clEnqueueNDRangeKernel) F(clEnqueueReadBuffer) \
  F(clEnqueueWriteBuffer) F(clFinish) F(clGetEventInfo) F(clReleaseEvent) \
  F(clGetKernelWorkGroupInfo)
// clang-format on
#define ROPEWAY_DECLARE(name) decltype(&::name) name = nullptr;
  ROPEWAY_OPENCL_FUNCTIONS(ROPEWAY_DECLARE)
#undef ROPEWAY_DECLARE
};

// "CL_OUT_OF_RESOURCES", or the number.
std::string OpenClErrorName(cl_int error);

struct OpenClDevice;

// ListOpenClDevices and OpenOpenCl (opencl.h) with this library, which must outlive the result.
StatusOr<std::vector<OpenClDevice>> ListOpenClDevicesWith(const OpenClLibrary& cl);
StatusOr<std::unique_ptr<Gpu>> OpenOpenClWith(const OpenClLibrary& cl, int index);

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_OPENCL_LIBRARY_H_
