// The kernel language: a subset of C that is OpenCL C 1.2 for one compiler and CUDA C++ for the other. Every
// source begins with this text, and then math_constants.h. No compiler here may contract a * b + c: FMA says where
// it is meant.
#ifdef __OPENCL_VERSION__

#pragma OPENCL FP_CONTRACT OFF
// With the lanes of its groups: the compiler must make it fit.
#define KERNEL(lanes) __kernel __attribute__((reqd_work_group_size(lanes, 1, 1))) void
#define DEVICE static inline __attribute__((always_inline))
#define GLOBAL __global
#define CONSTANT __constant
#define SHARED __local
#define TO_SHARED __local  // Of a pointer.
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define LANE() ((int)get_local_id(0))
#define LANES() ((int)get_local_size(0))
#define GROUP_X() ((int)get_group_id(0))
#define GROUP_Y() ((int)get_group_id(1))
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#define AS_FLOAT(x) as_float(x)
#define AS_UINT(x) as_uint(x)
#define SCHAR char
#define ALIGNED(type, p, bytes) ((type *)(p))

#else  // CUDA

#define KERNEL(lanes) extern "C" __global__ void __launch_bounds__(lanes)
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define CONSTANT static __constant__
#define SHARED __shared__
#define TO_SHARED
#define BARRIER() __syncthreads()
#define LANE() ((int)threadIdx.x)
#define LANES() ((int)blockDim.x)
#define GROUP_X() ((int)blockIdx.x)
#define GROUP_Y() ((int)blockIdx.y)
#define FMA(a, b, c) __fmaf_rn(a, b, c)
#define SQRT(x) __fsqrt_rn(x)
#define AS_FLOAT(x) __uint_as_float(x)
#define AS_UINT(x) __float_as_uint(x)
#define SCHAR signed char
// The pointer, with its address a multiple of so many bytes: for fewer loads.
#define ALIGNED(type, p, bytes) ((type *)__builtin_assume_aligned(p, bytes))
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long long ulong;

#endif

// A View's two parameters, and what is at it.
#define VIEW(name) GLOBAL uchar *name##_base, ulong name##_at
#define AT(type, name) ((GLOBAL type *)(name##_base + name##_at))

// a and b hold four signed bytes each: the sum of their products.
DEVICE int Dot4(uint a, uint b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
  return __dp4a((int)a, (int)b, 0);
#else
  return (int)(SCHAR)a * (int)(SCHAR)b + (int)(SCHAR)(a >> 8) * (int)(SCHAR)(b >> 8) +
         (int)(SCHAR)(a >> 16) * (int)(SCHAR)(b >> 16) +
         (int)(SCHAR)(a >> 24) * (int)(SCHAR)(b >> 24);
#endif
}
