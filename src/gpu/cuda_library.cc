#include "gpu/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ropeway::gpu {
namespace {

void* Open(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

// The first function that a library lacks; null if it has them all.
#define ROPEWAY_LOAD(name, symbol, ...)                                        \
  cuda->name = reinterpret_cast<decltype(cuda->name)>(dlsym(handle, #symbol)); \
  if (cuda->name == nullptr && absent == nullptr) absent = #symbol;

const char* LoadDriver(void* handle, CudaLibrary* cuda) {
  const char* absent = nullptr;
  ROPEWAY_CUDA_DRIVER_FUNCTIONS(ROPEWAY_LOAD)
  return absent;
}

const char* LoadCompiler(void* handle, CudaLibrary* cuda) {
  const char* absent = nullptr;
  ROPEWAY_CUDA_COMPILER_FUNCTIONS(ROPEWAY_LOAD)
  return absent;
}
#undef ROPEWAY_LOAD

// The newest compiler whose results the driver loads. The result is empty, or why there is none.
std::string FindCompiler(CudaLibrary* cuda) {
  int driver = 0;
  if (cuda->cuDriverGetVersion(&driver) != 0) return "the driver does not say its version";
  std::string fault = "CUDA's compiler, libnvrtc.so, is missing";
  for (const char* const name :
       {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}) {
    void* const handle = Open(name);
    if (handle == nullptr) continue;
    if (const char* const absent = LoadCompiler(handle, cuda)) {
      fault = fmt::format("CUDA's compiler {} is too old: it has no function {}", name, absent);
      continue;
    }
    int major = 0;
    int minor = 0;
    if (cuda->nvrtcVersion(&major, &minor) == 0 && DriverLoadsFrom(major, driver)) return "";
    fault = fmt::format("CUDA's compiler {} is newer than the driver, which knows CUDA {}.{}", name,
                        driver / 1000, driver % 1000 / 10);
  }
  return fault;
}

Status Load(CudaLibrary* cuda) {
  const auto missing = [](const std::string& what) { return Status(StatusCode::kNotFound, what); };
  void* const driver = Open("libcuda.so.1");
  if (driver == nullptr) {
    return missing(fmt::format("NVIDIA's driver cannot be used: {}", dlerror()));
  }
  if (const char* const absent = LoadDriver(driver, cuda)) {
    return missing(
        fmt::format("libcuda.so.1 is no CUDA, or too old a one: it has no function {}", absent));
  }
  if (const CuResult error = cuda->cuInit(0); error != 0) {
    return missing(fmt::format("no CUDA device was found: {}", CudaErrorName(*cuda, error)));
  }
  cuda->compiler_fault = FindCompiler(cuda);
  return {};
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
