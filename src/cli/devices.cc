#include "cli/devices.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/output.h"
#include "engine/machine.h"
#include "executor/devices.h"

namespace ropeway::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

int PrintDevices() {
  base::Output output;
  output.Write(fmt::format("cpu       {}\n", engine::CpuName()));
  std::vector<std::pair<std::string, std::string>> missing;
  for (const executor::Device& device : executor::ListDevices(&missing)) {
    output.Write(fmt::format("{:9} {} ({}), {:.1f} GiB{}\n", device.name, device.info.name,
                             device.info.driver,
                             static_cast<double>(device.info.memory_bytes) / kGiB,
                             device.unfit.empty() ? "" : "; cannot be used: " + device.unfit));
  }
  for (const auto& [kind, reason] : missing) {
    output.Write(fmt::format("{:9} none: {}\n", kind, reason));
  }
  return output.End();
}

}  // namespace

flags::Command DevicesCommand() {
  return {
      "devices",
      "List what can compute: the values of --device",
      {},
      "GPUs are found by CUDA and OpenCL. What cannot give the same bits as the CPU is listed "
      "with the reason,\nand what is missing where none is found.\n\nExample:\n  ropeway devices",
      [] { return PrintDevices(); }};
}

}  // namespace ropeway::cli
