#include "executor/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "executor/cpu_executor.h"
#include "executor/gpu_executor.h"
#include "gpu/cuda.h"
#include "gpu/opencl.h"

namespace ropeway::executor {
namespace {

// A kind of devices; a new one is a row.
struct Kind {
  const char* name;
  StatusOr<std::vector<Device>> (*list)();
  StatusOr<std::unique_ptr<gpu::Gpu>> (*open)(int index);
};

StatusOr<std::vector<Device>> ListOpenCl() {
  StatusOr<std::vector<gpu::OpenClDevice>> listed = gpu::ListOpenClDevices();
  if (!listed.ok()) return listed.status();
  std::vector<Device> devices;
  for (gpu::OpenClDevice& found : *listed) {
    devices.push_back({fmt::format("opencl:{}", devices.size()), std::move(found.info),
                       found.is_gpu, std::move(found.unfit)});
  }
  return devices;
}

StatusOr<std::vector<Device>> ListCuda() {
  StatusOr<std::vector<gpu::CudaDevice>> listed = gpu::ListCudaDevices();
  if (!listed.ok()) return listed.status();
  std::vector<Device> devices;
  for (gpu::CudaDevice& found : *listed) {
    devices.push_back({fmt::format("cuda:{}", devices.size()), std::move(found.info), true,
                       std::move(found.unfit)});
  }
  return devices;
}

// "auto" prefers them in this order.
constexpr Kind kKinds[] = {{"cuda", ListCuda, gpu::OpenCuda},
                           {"opencl", ListOpenCl, gpu::OpenOpenCl}};

struct Named {
  const Kind* kind;
  int index;
};

// nullopt: the text is no kind's name, with or without a number.
std::optional<Named> Parse(std::string_view text) {
  const size_t colon = text.find(':');
  int index = 0;
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index < 0) {
      return std::nullopt;
    }
  }
  for (const Kind& kind : kKinds) {
    if (text.substr(0, colon) == kind.name) return Named{&kind, index};
  }
  return std::nullopt;
}

Status WithField(const Status& status) {
  const char* const hint =
      status.code() == StatusCode::kNotFound ? " (`ropeway devices` lists what there is)" : "";
  return Status(status.code(), fmt::format("--device: {}{}", status.message(), hint), "device");
}

}  // namespace

std::vector<Device> ListDevices(std::vector<std::pair<std::string, std::string>>* missing) {
  std::vector<Device> all;
  for (const Kind& kind : kKinds) {
    StatusOr<std::vector<Device>> listed = kind.list();
    if (listed.ok()) {
      for (Device& device : *listed) all.push_back(std::move(device));
    } else if (missing != nullptr) {
      missing->emplace_back(kind.name, listed.status().message());
    }
  }
  return all;
}

std::string DeviceNameFault(const std::string& name) {
  if (name == "cpu" || name == "auto" || Parse(name)) return "";
  std::string known = "cpu, auto";
  for (const Kind& kind : kKinds) known += fmt::format(", {0}, {0}:NUMBER", kind.name);
  return fmt::format("must be one of {}, not '{}'", known, name);
}

Status CheckDeviceName(const std::string& name) {
  const std::string fault = DeviceNameFault(name);
  return fault.empty() ? Status() : InvalidArgument("--device: " + fault, "device");
}

StatusOr<std::unique_ptr<gpu::Gpu>> OpenDevice(const std::string& name, std::string* opened) {
  if (Status bad = CheckDeviceName(name); !bad.ok()) return bad;
  *opened = "cpu";
  if (name == "cpu") return std::unique_ptr<gpu::Gpu>();
  if (name == "auto") {
    for (const Device& device : ListDevices()) {
      if (!device.is_gpu || !device.unfit.empty()) continue;
      StatusOr<std::unique_ptr<gpu::Gpu>> gpu = OpenDevice(device.name, opened);
      if (gpu.ok()) return gpu;
      base::Log().warn("{} is not used: {}", device.name, gpu.status().message());
    }
    return std::unique_ptr<gpu::Gpu>();
  }
  const Named named = *Parse(name);
  StatusOr<std::unique_ptr<gpu::Gpu>> gpu = named.kind->open(named.index);
  if (!gpu.ok()) return WithField(gpu.status());
  *opened = fmt::format("{}:{}, {}", named.kind->name, named.index, (*gpu)->info().name);
  return gpu;
}

std::unique_ptr<Executor> MakeExecutor(std::unique_ptr<gpu::Gpu> gpu,
                                       std::shared_ptr<const Weights> weights,
                                       const kernels::Kernels* kernels, int threads,
                                       kernels::KvType kv_type, std::vector<TokenId> absent) {
  if (gpu == nullptr) {
    return std::make_unique<CpuExecutor>(std::move(weights), kernels, threads, kv_type,
                                         std::move(absent));
  }
  return std::make_unique<GpuExecutor>(std::move(gpu), std::move(weights), kernels, threads,
                                       kv_type, std::move(absent));
}

}  // namespace ropeway::executor
