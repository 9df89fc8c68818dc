// Internal to this room and its tests: whether a device computes as this CPU does.
#ifndef ROPEWAY_GPU_PROBE_H_
#define ROPEWAY_GPU_PROBE_H_

#include "gpu/gpu.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

// What a driver says of its arithmetic is believed only once a few operations have given this CPU's
// bits: kUnimplemented, with the operation that has not; or what the device failed with.
Status ProbeArithmetic(Gpu* gpu);

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_PROBE_H_
