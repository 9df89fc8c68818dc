// Devices by OpenCL 1.2 or newer: libOpenCL.so.1, loaded when it is first asked for.
#ifndef ROPEWAY_GPU_OPENCL_H_
#define ROPEWAY_GPU_OPENCL_H_

#include <memory>
#include <vector>

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

// A device as it is listed.
struct OpenClDevice {
  DeviceInfo info;
  bool is_gpu = false;
  // Empty: it can give the same bits as the CPU. Else why it cannot.
  std::string unfit;
};

// All devices of all platforms, in the order in which the drivers have them. kNotFound, with the
// reason: there is none.
StatusOr<std::vector<OpenClDevice>> ListOpenClDevices();

// The device of this index in ListOpenClDevices. kNotFound, with the reason: there is none.
// kUnimplemented, with the reason: it cannot give the same bits as the CPU.
StatusOr<std::unique_ptr<Gpu>> OpenOpenCl(int index);

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_OPENCL_H_
