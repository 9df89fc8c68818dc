#include "gpu/opencl.h"

#include <fmt/format.h>

#include <utility>

#include "gpu/build_log.h"
#include "gpu/constants.h"
#include "gpu/opencl_library.h"
#include "gpu/probe.h"

namespace ropeway::gpu {
namespace {

using Library = OpenClLibrary;

// Without contraction, flushed denormals or approximate division, which would change bits.
constexpr char kBuildOptions[] = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";

Status Failed(const char* what, cl_int error) {
  return Status(StatusCode::kInternal, fmt::format("{}: {}", what, OpenClErrorName(error)));
}

std::string TextOf(const Library& cl, cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (cl.clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(size - 1);  // Without the final zero.
  return text;
}

template <typename T>
T NumberOf(const Library& cl, cl_device_id device, cl_device_info what) {
  T number{};
  if (cl.clGetDeviceInfo(device, what, sizeof number, &number, nullptr) != CL_SUCCESS) return T{};
  return number;
}

struct Found {
  cl_platform_id platform;
  cl_device_id device;
};

std::vector<Found> FindDevices(const Library& cl) {
  std::vector<Found> found;
  cl_uint count = 0;
  if (cl.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return found;
  std::vector<cl_platform_id> platforms(count);
  if (cl.clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return found;
  for (const cl_platform_id platform : platforms) {
    cl_uint devices = 0;
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) {
      continue;  // It has none.
    }
    std::vector<cl_device_id> ids(devices);
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr) !=
        CL_SUCCESS) {
      continue;
    }
    for (const cl_device_id id : ids) found.push_back({platform, id});
  }
  return found;
}

Status NoOpenClDevice() {
  return {
      StatusCode::kNotFound,
      "no OpenCL device was found: the GPU's driver for OpenCL is missing (such as the package "
      "intel-opencl-icd, mesa-opencl-icd or nvidia-opencl-icd), or this user may not use the GPU"};
}

// What of IEEE 754 the kernels need that the device does not have.
std::string Unfit(const Library& cl, cl_device_id device) {
  const auto config = NumberOf<cl_device_fp_config>(cl, device, CL_DEVICE_SINGLE_FP_CONFIG);
  std::string missing;
  for (const auto& [bit, name] :
       {std::pair<cl_device_fp_config, const char*>{CL_FP_FMA, "CL_FP_FMA"},
        {CL_FP_DENORM, "CL_FP_DENORM"},
        {CL_FP_INF_NAN, "CL_FP_INF_NAN"},
        {CL_FP_ROUND_TO_NEAREST, "CL_FP_ROUND_TO_NEAREST"},
        {CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, "CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT"}}) {
    if ((config & bit) != 0) continue;
    missing += missing.empty() ? "" : ", ";
    missing += name;
  }
  if (!missing.empty()) return "it does not compute as IEEE 754 has it: no " + missing;
  if (NumberOf<cl_bool>(cl, device, CL_DEVICE_ENDIAN_LITTLE) != CL_TRUE) {
    return "its numbers are not little-endian";
  }
  if (NumberOf<cl_bool>(cl, device, CL_DEVICE_COMPILER_AVAILABLE) != CL_TRUE) {
    return "it has no compiler";
  }
  const auto lanes = NumberOf<size_t>(cl, device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  if (lanes < kMostLanes) {
    return fmt::format("its groups have at most {} lanes, and the kernels' have {}", lanes,
                       kMostLanes);
  }
  const auto shared = NumberOf<cl_ulong>(cl, device, CL_DEVICE_LOCAL_MEM_SIZE);
  if (shared < kMostSharedBytes) {
    return fmt::format("its groups share at most {} bytes, and the kernels' share {}", shared,
                       kMostSharedBytes);
  }
  return "";
}

OpenClDevice Describe(const Library& cl, const Found& found) {
  OpenClDevice device;
  device.info.name = TextOf(cl, found.device, CL_DEVICE_NAME);
  device.info.driver = TextOf(cl, found.device, CL_DEVICE_VERSION);
  device.info.memory_bytes = NumberOf<cl_ulong>(cl, found.device, CL_DEVICE_GLOBAL_MEM_SIZE);
  device.info.max_buffer_bytes = NumberOf<cl_ulong>(cl, found.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  const auto type = NumberOf<cl_device_type>(cl, found.device, CL_DEVICE_TYPE);
  device.is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  device.unfit = Unfit(cl, found.device);
  return device;
}

class ClBuffer final : public Buffer {
 public:
  ClBuffer(const Library& cl, cl_mem memory, size_t size)
      : Buffer(size), cl_(cl), memory_(memory) {}
  ~ClBuffer() override { cl_.clReleaseMemObject(memory_); }
  cl_mem memory() const { return memory_; }

 private:
  const Library& cl_;
  const cl_mem memory_;
};

class ClKernel final : public Kernel {
 public:
  ClKernel(const Library& cl, cl_kernel kernel) : cl_(cl), kernel_(kernel) {}
  ~ClKernel() override { cl_.clReleaseKernel(kernel_); }
  cl_kernel kernel() const { return kernel_; }

 private:
  const Library& cl_;
  const cl_kernel kernel_;
};

class ClProgram final : public Program {
 public:
  ClProgram(const Library& cl, cl_device_id device, cl_program program)
      : cl_(cl), device_(device), program_(program) {}
  ~ClProgram() override { cl_.clReleaseProgram(program_); }

  StatusOr<std::unique_ptr<Kernel>> Find(const char* name) override {
    cl_int error = CL_SUCCESS;
    const cl_kernel kernel = cl_.clCreateKernel(program_, name, &error);
    if (kernel == nullptr) return Failed(fmt::format("kernel {}", name).c_str(), error);
    auto found = std::make_unique<ClKernel>(cl_, kernel);
    // The device may not have the registers for so many lanes as the kernel is made for.
    size_t wanted[3] = {};
    size_t most = 0;
    if (cl_.clGetKernelWorkGroupInfo(kernel, device_, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                     sizeof wanted, wanted, nullptr) == CL_SUCCESS &&
        cl_.clGetKernelWorkGroupInfo(kernel, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                     nullptr) == CL_SUCCESS &&
        most < wanted[0]) {
      return Status(StatusCode::kInternal,
                    fmt::format("the device runs the kernel {} by at most {} lanes, not {}", name,
                                most, wanted[0]));
    }
    return std::unique_ptr<Kernel>(std::move(found));
  }

 private:
  const Library& cl_;
  const cl_device_id device_;
  const cl_program program_;
};

class OpenClGpu final : public Gpu {
 public:
  OpenClGpu(const Library& cl, const Found& found, DeviceInfo info)
      : cl_(cl), device_(found.device), info_(std::move(info)) {}
  ~OpenClGpu() override {
    if (queue_ != nullptr) {
      cl_.clFinish(queue_);
      for (const cl_event event : events_) cl_.clReleaseEvent(event);
      cl_.clReleaseCommandQueue(queue_);
    }
    if (context_ != nullptr) cl_.clReleaseContext(context_);
  }
  OpenClGpu(const OpenClGpu&) = delete;
  OpenClGpu& operator=(const OpenClGpu&) = delete;

  Status Open() {
    cl_int error = CL_SUCCESS;
    context_ = cl_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    if (context_ == nullptr) return Failed("cannot open the device", error);
    queue_ = cl_.clCreateCommandQueue(context_, device_, 0, &error);
    if (queue_ == nullptr) return Failed("cannot make a command queue", error);
    return {};
  }

  const DeviceInfo& info() const override { return info_; }

  StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size) override {
    const Status none(
        StatusCode::kResourceExhausted,
        fmt::format("the device {} has no {} bytes of memory in one piece", info_.name, size));
    if (size > info_.max_buffer_bytes) {
      return Status(StatusCode::kResourceExhausted,
                    fmt::format("the device {} gives at most {} bytes of memory in one piece",
                                info_.name, info_.max_buffer_bytes));
    }
    cl_int error = CL_SUCCESS;
    const cl_mem memory = cl_.clCreateBuffer(context_, CL_MEM_READ_WRITE, size, nullptr, &error);
    if (memory == nullptr) return none;
    auto buffer = std::make_unique<ClBuffer>(cl_, memory, size);
    // Drivers take the memory when it is first used: without a use a step would be told that there
    // is none.
    const char byte = 0;
    if (cl_.clEnqueueWriteBuffer(queue_, memory, CL_TRUE, 0, 1, &byte, 0, nullptr, nullptr) !=
        CL_SUCCESS) {
      return none;
    }
    return std::unique_ptr<Buffer>(std::move(buffer));
  }

  StatusOr<std::unique_ptr<Program>> Build(const std::string& source) override {
    const char* text = source.c_str();
    const size_t length = source.size();
    cl_int error = CL_SUCCESS;
    const cl_program program = cl_.clCreateProgramWithSource(context_, 1, &text, &length, &error);
    if (program == nullptr) return Failed("cannot make a program", error);
    auto made = std::make_unique<ClProgram>(cl_, device_, program);
    error = cl_.clBuildProgram(program, 1, &device_, kBuildOptions, nullptr, nullptr);
    if (error == CL_SUCCESS) return std::unique_ptr<Program>(std::move(made));
    size_t size = 0;
    cl_.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string log(size, '\0');
    cl_.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
    return Status(StatusCode::kInternal,
                  fmt::format("the device {} does not compile the kernels: {}{}", info_.name,
                              OpenClErrorName(error), BuildLog(std::move(log))));
  }

  void Write(View to, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    cl_event event = nullptr;
    const cl_int error = cl_.clEnqueueWriteBuffer(queue_, MemoryOf(to), CL_FALSE, to.offset,
                                                  bytes.size(), bytes.data(), 0, nullptr, &event);
    Asked("writing to the device", error, event);
  }

  void Read(View from, std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    cl_event event = nullptr;
    const cl_int error = cl_.clEnqueueReadBuffer(queue_, MemoryOf(from), CL_FALSE, from.offset,
                                                 bytes.size(), bytes.data(), 0, nullptr, &event);
    Asked("reading from the device", error, event);
  }

  void Launch(const Kernel& kernel, Groups groups, int lanes,
              std::initializer_list<Argument> arguments) override {
    if (groups.x <= 0 || groups.y <= 0) return;
    const cl_kernel called = static_cast<const ClKernel&>(kernel).kernel();
    cl_uint index = 0;
    for (const Argument& argument : arguments) Set(called, argument, &index);
    const size_t local[2] = {static_cast<size_t>(lanes), 1};
    const size_t global[2] = {static_cast<size_t>(groups.x) * local[0],
                              static_cast<size_t>(groups.y)};
    cl_event event = nullptr;
    const cl_int error =
        cl_.clEnqueueNDRangeKernel(queue_, called, 2, nullptr, global, local, 0, nullptr, &event);
    Asked("starting a kernel", error, event);
  }

  Status Finish() override {
    Note("waiting for the device", cl_.clFinish(queue_));
    // A command that ended abnormally is none of clFinish's errors.
    for (const cl_event event : events_) {
      cl_int status = CL_COMPLETE;
      Note("asking how a command ended",
           cl_.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                              nullptr));
      if (status < 0) Note("a command ended abnormally", status);
      cl_.clReleaseEvent(event);
    }
    events_.clear();
    return failure_;
  }

 private:
  static cl_mem MemoryOf(View view) {
    return view.buffer == nullptr ? nullptr : static_cast<const ClBuffer*>(view.buffer)->memory();
  }

  void Set(cl_kernel kernel, const Argument& argument, cl_uint* index) {
    const auto set = [&](size_t size, const void* value) {
      Note("setting a kernel's parameter", cl_.clSetKernelArg(kernel, (*index)++, size, value));
    };
    if (const auto* number = std::get_if<int32_t>(&argument)) return set(sizeof *number, number);
    if (const auto* number = std::get_if<float>(&argument)) return set(sizeof *number, number);
    const View view = std::get<View>(argument);
    const cl_mem memory = MemoryOf(view);
    const cl_ulong offset = view.offset;
    set(sizeof memory, &memory);
    set(sizeof offset, &offset);
  }

  // A command was put into the queue, or was not.
  void Asked(const char* what, cl_int error, cl_event event) {
    Note(what, error);
    if (error == CL_SUCCESS) events_.push_back(event);
  }

  // The first failure stays: what follows is its consequence.
  void Note(const char* what, cl_int error) {
    if (error != CL_SUCCESS && failure_.ok()) {
      failure_ = Status(
          StatusCode::kInternal,
          fmt::format("the device {} is lost: {}: {}", info_.name, what, OpenClErrorName(error)));
    }
  }

  const Library& cl_;
  const cl_device_id device_;
  const DeviceInfo info_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::vector<cl_event> events_;  // Of the commands since Finish.
  Status failure_;
};

}  // namespace

StatusOr<std::vector<OpenClDevice>> ListOpenClDevices() {
  const StatusOr<const Library*> cl = Library::Get();
  if (!cl.ok()) return cl.status();
  return ListOpenClDevicesWith(**cl);
}

StatusOr<std::vector<OpenClDevice>> ListOpenClDevicesWith(const OpenClLibrary& cl) {
  std::vector<OpenClDevice> devices;
  for (const Found& found : FindDevices(cl)) devices.push_back(Describe(cl, found));
  if (devices.empty()) return NoOpenClDevice();
  return devices;
}

StatusOr<std::unique_ptr<Gpu>> OpenOpenCl(int index) {
  const StatusOr<const Library*> cl = Library::Get();
  if (!cl.ok()) return cl.status();
  return OpenOpenClWith(**cl, index);
}

StatusOr<std::unique_ptr<Gpu>> OpenOpenClWith(const OpenClLibrary& cl, int index) {
  const std::vector<Found> found = FindDevices(cl);
  if (found.empty()) return NoOpenClDevice();
  if (index < 0 || static_cast<size_t>(index) >= found.size()) {
    return Status(
        StatusCode::kNotFound,
        fmt::format("there is no OpenCL device {}: the last one is {}", index, found.size() - 1));
  }
  OpenClDevice device = Describe(cl, found[static_cast<size_t>(index)]);
  if (!device.unfit.empty()) {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("the device {} cannot give the same bits as the CPU: {}",
                              device.info.name, device.unfit));
  }
  auto gpu =
      std::make_unique<OpenClGpu>(cl, found[static_cast<size_t>(index)], std::move(device.info));
  Status opened = gpu->Open();
  if (!opened.ok()) return opened;
  Status exact = ProbeArithmetic(gpu.get());
  if (!exact.ok()) return exact;
  return std::unique_ptr<Gpu>(std::move(gpu));
}

}  // namespace ropeway::gpu
