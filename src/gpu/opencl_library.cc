#include "gpu/opencl_library.h"

#include <dlfcn.h>

namespace ropeway::gpu {

const OpenClLibrary* OpenClLibrary::Get() {
  static const OpenClLibrary* const library = [] {
    static OpenClLibrary loaded;
    void* const handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return static_cast<const OpenClLibrary*>(nullptr);
    bool whole = true;
#define ROPEWAY_LOAD(name)                                                 \
  loaded.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  whole = whole && loaded.name != nullptr;
    ROPEWAY_OPENCL_FUNCTIONS(ROPEWAY_LOAD)
#undef ROPEWAY_LOAD
    return whole ? static_cast<const OpenClLibrary*>(&loaded) : nullptr;
  }();
  return library;
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
