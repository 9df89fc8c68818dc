#include "gpu/opencl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ropeway::gpu {

namespace {

Status Load(OpenClLibrary* cl) {
  void* const handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return {StatusCode::kNotFound,
            fmt::format("OpenCL's loader cannot be used: {}; packages call it ocl-icd-libopencl1 "
                        "or ocl-icd",
                        dlerror())};
  }
  const char* absent = nullptr;
#define ROPEWAY_LOAD(name)                                              \
  cl->name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  if (cl->name == nullptr && absent == nullptr) absent = #name;
  ROPEWAY_OPENCL_FUNCTIONS(ROPEWAY_LOAD)
#undef ROPEWAY_LOAD
  if (absent == nullptr) return {};
  return {StatusCode::kNotFound,
          fmt::format("libOpenCL.so.1 is no OpenCL 1.2 or newer: it has no function {}", absent)};
}

}  // namespace

StatusOr<const OpenClLibrary*> OpenClLibrary::Get() {
  static OpenClLibrary loaded;
  static const Status status = Load(&loaded);
  if (!status.ok()) return status;
  return static_cast<const OpenClLibrary*>(&loaded);
}

std::string OpenClErrorName(cl_int error) {
  switch (error) {
    case CL_DEVICE_NOT_AVAILABLE:
      return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_BUFFER_SIZE:
      return "CL_INVALID_BUFFER_SIZE";
    case CL_INVALID_KERNEL_ARGS:
      return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_ARG_SIZE:
      return "CL_INVALID_ARG_SIZE";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "CL_INVALID_WORK_GROUP_SIZE";
    default:
      return "OpenCL error " + std::to_string(error);
  }
}

}  // namespace ropeway::gpu
