// NVIDIA's devices by CUDA: libcuda.so.1 and its compiler libnvrtc.so, loaded when they are first
// asked for.
#ifndef ROPEWAY_GPU_CUDA_H_
#define ROPEWAY_GPU_CUDA_H_

#include <memory>
#include <vector>

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

// All devices, in the driver's order. Empty where CUDA or its compiler is not there.
std::vector<DeviceInfo> ListCudaDevices();

// The device of this index in ListCudaDevices. kNotFound, with the reason: there is none.
StatusOr<std::unique_ptr<Gpu>> OpenCuda(int index);

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_CUDA_H_
