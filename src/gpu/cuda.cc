#include "gpu/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/build_log.h"
#include "gpu/cuda_library.h"
#include "gpu/probe.h"
#include "gpu/program_cache.h"

namespace ropeway::gpu {
namespace {

Status Failed(const CudaLibrary& cuda, const char* what, CuResult error) {
  return Status(StatusCode::kInternal, fmt::format("{}: {}", what, CudaErrorName(cuda, error)));
}

int CountDevices(const CudaLibrary& cuda) {
  int count = 0;
  return cuda.cuDeviceGetCount(&count) == 0 ? count : 0;
}

Status NoCudaDevice() {
  return {StatusCode::kNotFound, "no CUDA device was found by NVIDIA's driver"};
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

// A compute capability: 90 is 9.0. 0: the driver does not say it.
int CapabilityOf(const CudaLibrary& cuda, CuDevice device) {
  int major = 0;
  int minor = 0;
  if (cuda.cuDeviceGetAttribute(&major, kCuComputeCapabilityMajor, device) != 0 ||
      cuda.cuDeviceGetAttribute(&minor, kCuComputeCapabilityMinor, device) != 0) {
    return 0;
  }
  return major * 10 + minor;
}

// What the compiler is to compile for: the capability, or, where the compiler is older than the
// device, the highest one below it that it knows. 0: there is none.
int ArchitectureFor(const CudaLibrary& cuda, int capability) {
  int count = 0;
  if (cuda.nvrtcGetNumSupportedArchs(&count) != 0) return 0;
  std::vector<int> known(static_cast<size_t>(std::max(count, 0)));
  if (known.empty() || cuda.nvrtcGetSupportedArchs(known.data()) != 0) return 0;
  int best = 0;
  for (const int architecture : known) {
    if (architecture <= capability) best = std::max(best, architecture);
  }
  return best;
}

// Why no kernels can be compiled for the device; empty if they can.
std::string UnfitCuda(const CudaLibrary& cuda, CuDevice device) {
  if (!cuda.compiler_fault.empty()) return cuda.compiler_fault;
  const int capability = CapabilityOf(cuda, device);
  if (ArchitectureFor(cuda, capability) != 0) return "";
  return fmt::format("CUDA's compiler does not compile for its compute capability, {}.{}",
                     capability / 10, capability % 10);
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(const CudaLibrary& cuda, CuDevice device, const std::filesystem::path& cache)
      : cuda_(cuda), device_(device), info_(Describe(cuda, device)), cache_(cache) {}
  ~CudaGpu() override {
    if (context_ == nullptr) return;
    if (stream_ != nullptr) {
      const Entered entered(this);
      cuda_.cuStreamSynchronize(stream_);
      if (pinned_ != nullptr) cuda_.cuMemFreeHost(pinned_);
      cuda_.cuStreamDestroy(stream_);
    }
    cuda_.cuDevicePrimaryCtxRelease(device_);
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  Status Open() {
    const int capability = CapabilityOf(cuda_, device_);
    architecture_ = ArchitectureFor(cuda_, capability);
    exact_ = architecture_ == capability;
    CuResult error = cuda_.cuDevicePrimaryCtxRetain(&context_, device_);
    if (error != 0) {
      context_ = nullptr;
      return Failed(cuda_, "cannot open the device", error);
    }
    const Entered entered(this);
    error = cuda_.cuStreamCreate(&stream_, kCuStreamNonBlocking);
    if (error != 0) {
      stream_ = nullptr;
      return Failed(cuda_, "cannot make a stream", error);
    }
    // It can do without.
    if (cuda_.cuMemHostAlloc(&pinned_, kPinnedBytes, 0) != 0) pinned_ = nullptr;
    return {};
  }

  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size) override;
  StatusOr<std::unique_ptr<Program>> Build(const std::string& source) override;

  void Write(View to, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    const Entered entered(this);
    Note("writing to the device",
         cuda_.cuMemcpyHtoDAsync(PointerOf(to) + to.offset, bytes.data(), bytes.size(), stream_));
  }

  void Read(View from, std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    const Entered entered(this);
    Note("reading from the device",
         cuda_.cuMemcpyDtoHAsync(PlaceFor(bytes), PointerOf(from) + from.offset, bytes.size(),
                                 stream_));
  }

  void Launch(const Kernel& kernel, Groups groups, int lanes,
              std::initializer_list<Argument> arguments) override;

  Status Finish() override {
    Wait();
    return failure_;
  }

  // The driver's calls are about the thread's context. It is the device's as long as this lives;
  // then the thread has the one that it had before, which may be another library's.
  class Entered {
   public:
    explicit Entered(CudaGpu* gpu) : cuda_(gpu->cuda_) {
      const CuResult error = cuda_.cuCtxPushCurrent(gpu->context_);
      pushed_ = error == 0;
      gpu->Note("choosing the device", error);
    }
    ~Entered() {
      CuContext popped = nullptr;
      if (pushed_) cuda_.cuCtxPopCurrent(&popped);
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    const CudaLibrary& cuda_;
    bool pushed_ = false;
  };

  // Before something is freed, too: nothing uses it any more then.
  void Wait() {
    const Entered entered(this);
    Note("waiting for the device", cuda_.cuStreamSynchronize(stream_));
    for (const PinnedRead& read : pinned_reads_) {
      if (failure_.ok()) std::memcpy(read.to.data(), read.from, read.to.size());
    }
    pinned_reads_.clear();
    pinned_used_ = 0;
  }

 private:
  // What has arrived in pinned memory, and is to be copied to where it was asked for.
  struct PinnedRead {
    const std::byte* from;
    std::span<std::byte> to;
  };
  static constexpr size_t kPinnedBytes = size_t{16} << 20;

  // Where a read may bring its bytes. The driver lets the host wait for a copy to memory that is
  // not pinned: as long as there is room, they come to some that is.
  std::byte* PlaceFor(std::span<std::byte> bytes) {
    if (pinned_ == nullptr || bytes.size() > kPinnedBytes - pinned_used_) return bytes.data();
    std::byte* const place = static_cast<std::byte*>(pinned_) + pinned_used_;
    try {
      pinned_reads_.push_back({place, bytes});
    } catch (const std::bad_alloc&) {
      return bytes.data();
    }
    pinned_used_ += bytes.size();
    return place;
  }

  static CuPointer PointerOf(View view);

  // Of the compiler.
  std::vector<std::string> Options() const;

  // All that the compiler's result depends on.
  std::string CacheKey(const std::string& source) const;

  // The compiler's result for the source.
  StatusOr<std::string> Compile(const std::string& source) const;

  // Makes the driver load a result of the compiler's.
  CuResult Load(const std::string& compiled, CuModule* module);

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
  const ProgramCache cache_;
  int architecture_ = 0;
  bool exact_ = false;  // That is the device's own.
  CuContext context_ = nullptr;
  CuStream stream_ = nullptr;
  void* pinned_ = nullptr;  // [kPinnedBytes], or null.
  size_t pinned_used_ = 0;
  std::vector<PinnedRead> pinned_reads_;
  Status failure_;
};

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(const CudaLibrary& cuda, CudaGpu* gpu, CuPointer memory, size_t size)
      : Buffer(size), cuda_(cuda), gpu_(gpu), memory_(memory) {}
  ~CudaBuffer() override {
    gpu_->Wait();
    const CudaGpu::Entered entered(gpu_);
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
    const CudaGpu::Entered entered(gpu_);
    cuda_.cuModuleUnload(module_);
  }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  StatusOr<std::unique_ptr<Kernel>> Find(const char* name) override {
    const CudaGpu::Entered entered(gpu_);
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
  const Entered entered(this);
  CuPointer memory = 0;
  if (cuda_.cuMemAlloc(&memory, size) != 0) {
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("the device {} has no {} bytes of memory in one piece", info_.name, size));
  }
  return std::unique_ptr<Buffer>(std::make_unique<CudaBuffer>(cuda_, this, memory, size));
}

std::vector<std::string> CudaGpu::Options() const {
  // The device's own instructions need no compiler in the driver, which may be older than this one
  // and not know its PTX.
  std::vector<std::string> options = {
      fmt::format("--gpu-architecture={}_{}", exact_ ? "sm" : "compute", architecture_)};
  options.insert(options.end(), std::begin(kCudaOptions), std::end(kCudaOptions));
  return options;
}

std::string CudaGpu::CacheKey(const std::string& source) const {
  int major = 0;
  int minor = 0;
  cuda_.nvrtcVersion(&major, &minor);
  std::string key = fmt::format("{}\n{}\nNVRTC {}.{}\n", info_.name, info_.driver, major, minor);
  for (const std::string& option : Options()) key += option + "\n";
  return key + source;
}

StatusOr<std::string> CudaGpu::Compile(const std::string& source) const {
  NvrtcProgram program = nullptr;
  if (cuda_.nvrtcCreateProgram(&program, source.c_str(), "ropeway.cu", 0, nullptr, nullptr) != 0) {
    return Status(StatusCode::kInternal, "cannot make a program");
  }
  const auto destroy = [this](NvrtcProgram made) { cuda_.nvrtcDestroyProgram(&made); };
  const std::unique_ptr<std::remove_pointer_t<NvrtcProgram>, decltype(destroy)> owner(program,
                                                                                      destroy);
  const std::vector<std::string> texts = Options();
  std::vector<const char*> options;
  for (const std::string& text : texts) options.push_back(text.c_str());
  const NvrtcResult error =
      cuda_.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t size = 0;
  std::string text;
  if (error == 0) {
    const auto get_size = exact_ ? cuda_.nvrtcGetCUBINSize : cuda_.nvrtcGetPTXSize;
    const auto get = exact_ ? cuda_.nvrtcGetCUBIN : cuda_.nvrtcGetPTX;
    NvrtcResult got = get_size(program, &size);
    text.resize(size);
    if (got == 0) got = get(program, text.data());
    if (got == 0 && size > 0) return text;
    return Status(
        StatusCode::kInternal,
        fmt::format("CUDA's compiler does not give the kernels out: NVRTC error {}", got));
  }
  cuda_.nvrtcGetProgramLogSize(program, &size);
  text.resize(size);
  cuda_.nvrtcGetProgramLog(program, text.data());
  return Status(StatusCode::kInternal,
                fmt::format("the device {} does not compile the kernels: NVRTC error {}{}",
                            info_.name, error, BuildLog(std::move(text))));
}

CuResult CudaGpu::Load(const std::string& compiled, CuModule* module) {
  const Entered entered(this);
  return cuda_.cuModuleLoadData(module, compiled.c_str());
}

StatusOr<std::unique_ptr<Program>> CudaGpu::Build(const std::string& source) {
  const std::string key = CacheKey(source);
  CuModule module = nullptr;
  const std::optional<std::string> kept = cache_.Find(key);
  if (!kept || Load(*kept, &module) != 0) {
    const StatusOr<std::string> compiled = Compile(source);
    if (!compiled.ok()) return compiled.status();
    if (const CuResult error = Load(*compiled, &module); error != 0) {
      return Failed(
          cuda_, fmt::format("the device {} does not load the kernels", info_.name).c_str(), error);
    }
    cache_.Keep(key, *compiled);
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
  const Entered entered(this);
  Note(
      "starting a kernel",
      cuda_.cuLaunchKernel(static_cast<const CudaKernel&>(kernel).function(),
                           static_cast<unsigned>(groups.x), static_cast<unsigned>(groups.y), 1,
                           static_cast<unsigned>(lanes), 1, 1, 0, stream_, places.data(), nullptr));
}

}  // namespace

StatusOr<std::vector<CudaDevice>> ListCudaDevicesWith(const CudaLibrary& cuda) {
  std::vector<CudaDevice> devices;
  const int count = CountDevices(cuda);
  for (int i = 0; i < count; ++i) {
    CuDevice device = 0;
    if (cuda.cuDeviceGet(&device, i) != 0) break;
    devices.push_back({Describe(cuda, device), UnfitCuda(cuda, device)});
  }
  if (devices.empty()) return NoCudaDevice();
  return devices;
}

StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  const StatusOr<const CudaLibrary*> cuda = CudaLibrary::Get();
  if (!cuda.ok()) return cuda.status();
  return ListCudaDevicesWith(**cuda);
}

StatusOr<std::unique_ptr<Gpu>> OpenCudaWith(const CudaLibrary& cuda, int index,
                                            const std::filesystem::path& cache) {
  const int count = CountDevices(cuda);
  if (count <= 0) return NoCudaDevice();
  CuDevice device = 0;
  if (index < 0 || index >= count || cuda.cuDeviceGet(&device, index) != 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("there is no CUDA device {}: the last one is {}", index, count - 1));
  }
  auto gpu = std::make_unique<CudaGpu>(cuda, device, cache);
  if (const std::string unfit = UnfitCuda(cuda, device); !unfit.empty()) {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("the device {} cannot be used: {}", gpu->info().name, unfit));
  }
  Status opened = gpu->Open();
  if (!opened.ok()) return opened;
  Status exact = ProbeArithmetic(gpu.get());
  if (!exact.ok()) return exact;
  return std::unique_ptr<Gpu>(std::move(gpu));
}

StatusOr<std::unique_ptr<Gpu>> OpenCuda(int index) {
  const StatusOr<const CudaLibrary*> cuda = CudaLibrary::Get();
  if (!cuda.ok()) return cuda.status();
  return OpenCudaWith(**cuda, index, ProgramCache::DefaultFolder());
}

}  // namespace ropeway::gpu
