#include "gpu/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/cuda_library.h"

namespace ropeway::gpu {
namespace {

Status Failed(const CudaLibrary& cuda, const char* what, CuResult error) {
  return Status(StatusCode::kInternal, fmt::format("{}: {}", what, CudaErrorName(cuda, error)));
}

int CountDevices(const CudaLibrary& cuda) {
  int count = 0;
  return cuda.cuDeviceGetCount(&count) == 0 ? count : 0;
}

DeviceInfo Describe(const CudaLibrary& cuda, CuDevice device) {
  DeviceInfo info;
  char name[256] = {};
  if (cuda.cuDeviceGetName(name, sizeof name - 1, device) == 0) info.name = name;
  int version = 0;
  if (cuda.cuDriverGetVersion(&version) == 0) {
    info.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  }
  size_t bytes = 0;
  if (cuda.cuDeviceTotalMem(&bytes, device) == 0) info.memory_bytes = bytes;
  info.max_buffer_bytes = info.memory_bytes;
  return info;
}

// What the compiler is to compile for: the device's compute capability (90 is 9.0), or, where the
// compiler is older than the device, the highest one below it that it knows. 0: there is none.
int ArchitectureFor(const CudaLibrary& cuda, CuDevice device) {
  int major = 0;
  int minor = 0;
  int count = 0;
  if (cuda.cuDeviceGetAttribute(&major, kCuComputeCapabilityMajor, device) != 0 ||
      cuda.cuDeviceGetAttribute(&minor, kCuComputeCapabilityMinor, device) != 0 ||
      cuda.nvrtcGetNumSupportedArchs(&count) != 0) {
    return 0;
  }
  std::vector<int> known(static_cast<size_t>(std::max(count, 0)));
  if (known.empty() || cuda.nvrtcGetSupportedArchs(known.data()) != 0) return 0;
  int best = 0;
  for (const int architecture : known) {
    if (architecture <= major * 10 + minor) best = std::max(best, architecture);
  }
  return best;
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(const CudaLibrary& cuda, CuDevice device)
      : cuda_(cuda), device_(device), info_(Describe(cuda, device)) {}
  ~CudaGpu() override {
    if (context_ == nullptr) return;
    cuda_.cuCtxSetCurrent(context_);
    if (stream_ != nullptr) {
      cuda_.cuStreamSynchronize(stream_);
      cuda_.cuStreamDestroy(stream_);
    }
    cuda_.cuDevicePrimaryCtxRelease(device_);
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  Status Open() {
    architecture_ = ArchitectureFor(cuda_, device_);
    if (architecture_ == 0) {
      return Status(
          StatusCode::kUnimplemented,
          fmt::format("CUDA's compiler here does not compile for the device {}", info_.name));
    }
    CuResult error = cuda_.cuDevicePrimaryCtxRetain(&context_, device_);
    if (error != 0) {
      context_ = nullptr;
      return Failed(cuda_, "cannot open the device", error);
    }
    Enter();
    error = cuda_.cuStreamCreate(&stream_, kCuStreamNonBlocking);
    if (error != 0) {
      stream_ = nullptr;
      return Failed(cuda_, "cannot make a stream", error);
    }
    return {};
  }

  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size) override;
  StatusOr<std::unique_ptr<Program>> Build(const std::string& source) override;

  void Write(View to, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    Enter();
    Note("writing to the device",
         cuda_.cuMemcpyHtoDAsync(PointerOf(to) + to.offset, bytes.data(), bytes.size(), stream_));
  }

  void Read(View from, std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    Enter();
    Note("reading from the device",
         cuda_.cuMemcpyDtoHAsync(bytes.data(), PointerOf(from) + from.offset, bytes.size(),
                                 stream_));
  }

  void Launch(const Kernel& kernel, Groups groups, int lanes,
              std::initializer_list<Argument> arguments) override;

  Status Finish() override {
    Enter();
    Note("waiting for the device", cuda_.cuStreamSynchronize(stream_));
    return failure_;
  }

  // The context belongs to a thread; the calls may come from another one than before.
  void Enter() { Note("choosing the device", cuda_.cuCtxSetCurrent(context_)); }

  // For what is freed: nothing uses it any more then.
  void Wait() {
    Enter();
    Note("waiting for the device", cuda_.cuStreamSynchronize(stream_));
  }

 private:
  static CuPointer PointerOf(View view);

  // The compiler's result for the source.
  StatusOr<std::string> Compile(const std::string& source) const;

  // The first failure stays: what follows is its consequence.
  void Note(const char* what, CuResult error) {
    if (error != 0 && failure_.ok()) {
      failure_ =
          Status(StatusCode::kInternal, fmt::format("the device {} is lost: {}: {}", info_.name,
                                                    what, CudaErrorName(cuda_, error)));
    }
  }

  const CudaLibrary& cuda_;
  const CuDevice device_;
  const DeviceInfo info_;
  int architecture_ = 0;
  CuContext context_ = nullptr;
  CuStream stream_ = nullptr;
  Status failure_;
};

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(const CudaLibrary& cuda, CudaGpu* gpu, CuPointer memory, size_t size)
      : Buffer(size), cuda_(cuda), gpu_(gpu), memory_(memory) {}
  ~CudaBuffer() override {
    gpu_->Wait();
    cuda_.cuMemFree(memory_);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  CuPointer memory() const { return memory_; }

 private:
  const CudaLibrary& cuda_;
  CudaGpu* const gpu_;
  const CuPointer memory_;
};

class CudaKernel final : public Kernel {
 public:
  explicit CudaKernel(CuFunction function) : function_(function) {}
  CuFunction function() const { return function_; }

 private:
  const CuFunction function_;
};

class CudaProgram final : public Program {
 public:
  CudaProgram(const CudaLibrary& cuda, CudaGpu* gpu, CuModule module)
      : cuda_(cuda), gpu_(gpu), module_(module) {}
  ~CudaProgram() override {
    gpu_->Wait();
    cuda_.cuModuleUnload(module_);
  }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  StatusOr<std::unique_ptr<Kernel>> Find(const char* name) override {
    gpu_->Enter();
    CuFunction function = nullptr;
    const CuResult error = cuda_.cuModuleGetFunction(&function, module_, name);
    if (error != 0) return Failed(cuda_, fmt::format("kernel {}", name).c_str(), error);
    return std::unique_ptr<Kernel>(std::make_unique<CudaKernel>(function));
  }

 private:
  const CudaLibrary& cuda_;
  CudaGpu* const gpu_;
  const CuModule module_;
};

CuPointer CudaGpu::PointerOf(View view) {
  return view.buffer == nullptr ? 0 : static_cast<const CudaBuffer*>(view.buffer)->memory();
}

StatusOr<std::unique_ptr<Buffer>> CudaGpu::Allocate(size_t size) {
  Enter();
  CuPointer memory = 0;
  if (cuda_.cuMemAlloc(&memory, size) != 0) {
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("the device {} has no {} bytes of memory in one piece", info_.name, size));
  }
  return std::unique_ptr<Buffer>(std::make_unique<CudaBuffer>(cuda_, this, memory, size));
}

StatusOr<std::string> CudaGpu::Compile(const std::string& source) const {
  NvrtcProgram program = nullptr;
  if (cuda_.nvrtcCreateProgram(&program, source.c_str(), "ropeway.cu", 0, nullptr, nullptr) != 0) {
    return Status(StatusCode::kInternal, "cannot make a program");
  }
  const auto destroy = [this](NvrtcProgram made) { cuda_.nvrtcDestroyProgram(&made); };
  const std::unique_ptr<std::remove_pointer_t<NvrtcProgram>, decltype(destroy)> owner(program,
                                                                                      destroy);
  const std::string architecture = fmt::format("--gpu-architecture=compute_{}", architecture_);
  std::vector<const char*> options = {architecture.c_str()};
  options.insert(options.end(), std::begin(kCudaOptions), std::end(kCudaOptions));
  const NvrtcResult error =
      cuda_.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t size = 0;
  std::string text;
  if (error == 0) {
    cuda_.nvrtcGetPTXSize(program, &size);
    text.resize(size);
    cuda_.nvrtcGetPTX(program, text.data());
    return text;
  }
  cuda_.nvrtcGetProgramLogSize(program, &size);
  text.resize(size);
  cuda_.nvrtcGetProgramLog(program, text.data());
  constexpr size_t kMostOfLog = 4000;
  return Status(StatusCode::kInternal,
                fmt::format("the device {} does not compile the kernels: NVRTC error {}: {}",
                            info_.name, error, text.substr(0, kMostOfLog)));
}

StatusOr<std::unique_ptr<Program>> CudaGpu::Build(const std::string& source) {
  const StatusOr<std::string> ptx = Compile(source);
  if (!ptx.ok()) return ptx.status();
  Enter();
  CuModule module = nullptr;
  const CuResult error = cuda_.cuModuleLoadData(&module, ptx->c_str());
  if (error != 0) {
    return Failed(cuda_, fmt::format("the device {} does not load the kernels", info_.name).c_str(),
                  error);
  }
  return std::unique_ptr<Program>(std::make_unique<CudaProgram>(cuda_, this, module));
}

void CudaGpu::Launch(const Kernel& kernel, Groups groups, int lanes,
                     std::initializer_list<Argument> arguments) {
  if (groups.x <= 0 || groups.y <= 0) return;
  // Every value in a place of its own, and where it is: the driver knows how much of it counts.
  constexpr size_t kMost = 64;
  std::array<uint64_t, kMost> values{};
  std::array<void*, kMost> places{};
  size_t count = 0;
  const auto put = [&](const auto& value) {
    if (count == kMost) std::abort();  // No kernel has so many.
    std::memcpy(&values[count], &value, sizeof value);
    places[count] = &values[count];
    ++count;
  };
  for (const Argument& argument : arguments) {
    if (const auto* integer = std::get_if<int32_t>(&argument)) {
      put(*integer);
    } else if (const auto* number = std::get_if<float>(&argument)) {
      put(*number);
    } else {
      const View view = std::get<View>(argument);
      put(PointerOf(view));
      put(view.offset);
    }
  }
  Enter();
  Note(
      "starting a kernel",
      cuda_.cuLaunchKernel(static_cast<const CudaKernel&>(kernel).function(),
                           static_cast<unsigned>(groups.x), static_cast<unsigned>(groups.y), 1,
                           static_cast<unsigned>(lanes), 1, 1, 0, stream_, places.data(), nullptr));
}

}  // namespace

std::vector<DeviceInfo> ListCudaDevices() {
  std::vector<DeviceInfo> devices;
  const StatusOr<const CudaLibrary*> cuda = CudaLibrary::Get();
  if (!cuda.ok()) return devices;
  const int count = CountDevices(**cuda);
  for (int i = 0; i < count; ++i) {
    CuDevice device = 0;
    if ((*cuda)->cuDeviceGet(&device, i) != 0) break;
    devices.push_back(Describe(**cuda, device));
  }
  return devices;
}

StatusOr<std::unique_ptr<Gpu>> OpenCudaWith(const CudaLibrary& cuda, int index) {
  const int count = CountDevices(cuda);
  CuDevice device = 0;
  if (index < 0 || index >= count || cuda.cuDeviceGet(&device, index) != 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("there is no CUDA device {}: there are {}", index, count));
  }
  auto gpu = std::make_unique<CudaGpu>(cuda, device);
  Status opened = gpu->Open();
  if (!opened.ok()) return opened;
  return std::unique_ptr<Gpu>(std::move(gpu));
}

StatusOr<std::unique_ptr<Gpu>> OpenCuda(int index) {
  const StatusOr<const CudaLibrary*> cuda = CudaLibrary::Get();
  if (!cuda.ok()) return cuda.status();
  return OpenCudaWith(**cuda, index);
}

}  // namespace ropeway::gpu
