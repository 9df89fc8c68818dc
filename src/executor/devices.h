// The devices that a model can be computed on, by the names that --device
// takes.
#ifndef ROPEWAY_EXECUTOR_DEVICES_H_
#define ROPEWAY_EXECUTOR_DEVICES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "executor/weights.h"
#include "gpu/gpu.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::executor {

struct Device {
  std::string name;  // "opencl:0": as --device takes it.
  gpu::DeviceInfo info;
  bool is_gpu = false;
  std::string unfit;  // Why it cannot give the same bits as the CPU; empty: it can.
};

// All but the CPU, which is always there. `missing`, if not null: of each kind that there is none
// of, its name and the reason.
std::vector<Device> ListDevices(
    std::vector<std::pair<std::string, std::string>>* missing = nullptr);

// "", or what is wrong with the name of a device: the end of a sentence that begins with the field.
std::string DeviceNameFault(const std::string& name);

// The same as kInvalidArgument with the field "device".
Status CheckDeviceName(const std::string& name);

// The device `name` ("cuda", "opencl:1" ...; without a number the first one),
// or nullptr: the CPU, which "cpu" names, and "auto" where no GPU is fit.
// `opened`: what it is, in words. Errors have the field "device": kNotFound, or
// kUnimplemented if it cannot give the same bits as the CPU.
StatusOr<std::unique_ptr<gpu::Gpu>> OpenDevice(const std::string& name, std::string* opened);

// An executor on the device, or where it is nullptr on the CPU. The rest as for
// CpuExecutor.
std::unique_ptr<Executor> MakeExecutor(std::unique_ptr<gpu::Gpu> gpu,
                                       std::shared_ptr<const Weights> weights,
                                       const kernels::Kernels* kernels, int threads,
                                       kernels::KvType kv_type, std::vector<TokenId> absent);

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_DEVICES_H_
