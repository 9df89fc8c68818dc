#include "gpu/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ropeway::gpu {
namespace {

// The first of these libraries that is there; null if none is.
void* Open(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

Status Load(CudaLibrary* cuda) {
  const auto missing = [](const char* what) { return Status(StatusCode::kNotFound, what); };
  void* const driver = Open({"libcuda.so.1"});
  if (driver == nullptr) return missing("there is no CUDA here: libcuda.so.1 is missing");
  void* const compiler =
      Open({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"});
  if (compiler == nullptr) {
    return missing("CUDA cannot be used here: its compiler, libnvrtc.so, is missing");
  }
  const char* absent = nullptr;
  void* handle = driver;
#define ROPEWAY_LOAD(name, symbol, ...)                                        \
  cuda->name = reinterpret_cast<decltype(cuda->name)>(dlsym(handle, #symbol)); \
  if (cuda->name == nullptr && absent == nullptr) absent = #symbol;
  ROPEWAY_CUDA_DRIVER_FUNCTIONS(ROPEWAY_LOAD)
  handle = compiler;
  ROPEWAY_CUDA_COMPILER_FUNCTIONS(ROPEWAY_LOAD)
#undef ROPEWAY_LOAD
  if (absent != nullptr) {
    return missing(fmt::format("CUDA is too old here: it has no function {}", absent).c_str());
  }
  const CuResult error = cuda->cuInit(0);
  if (error == 0) return {};
  return missing(
      fmt::format("there is no CUDA device here: {}", CudaErrorName(*cuda, error)).c_str());
}

}  // namespace

StatusOr<const CudaLibrary*> CudaLibrary::Get() {
  static CudaLibrary loaded;
  static const Status status = Load(&loaded);
  if (!status.ok()) return status;
  return static_cast<const CudaLibrary*>(&loaded);
}

std::string CudaErrorName(const CudaLibrary& cuda, CuResult error) {
  const char* name = nullptr;
  if (cuda.cuGetErrorName(error, &name) == 0 && name != nullptr) return name;
  return "CUDA error " + std::to_string(error);
}

}  // namespace ropeway::gpu
