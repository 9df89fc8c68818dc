// NVIDIA's devices by CUDA: libcuda.so.1 and its compiler libnvrtc.so, loaded when they are first
// asked for.
#ifndef ROPEWAY_GPU_CUDA_H_
#define ROPEWAY_GPU_CUDA_H_

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

// A device as it is listed.
struct CudaDevice {
  DeviceInfo info;
  // Empty: kernels can be compiled for it. Else why they cannot.
  std::string unfit;
};

// All devices, in the driver's order. kNotFound, with the reason: there is none.
StatusOr<std::vector<CudaDevice>> ListCudaDevices();

// The device of this index in ListCudaDevices. kNotFound, with the reason: there is none.
// kUnimplemented, with the reason: it cannot be used, or does not give the same bits as the CPU.
StatusOr<std::unique_ptr<Gpu>> OpenCuda(int index);

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_CUDA_H_
