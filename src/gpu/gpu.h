// The Gpu seam: memory, programs and a queue of one device that is not this CPU. Two small
// implementations (OpenCL; CUDA) load their drivers when they are asked for, so that one program
// runs with and without them.
#ifndef ROPEWAY_GPU_GPU_H_
#define ROPEWAY_GPU_GPU_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "ropeway/status.h"

namespace ropeway::gpu {

struct DeviceInfo {
  std::string name;    // As the driver says it.
  std::string driver;  // The platform and its version.
  uint64_t memory_bytes = 0;
  uint64_t max_buffer_bytes = 0;
};

// Memory on the device, freed with the object. It must not outlive its Gpu.
class Buffer {
 public:
  virtual ~Buffer() = default;
  size_t size() const { return size_; }

 protected:
  explicit Buffer(size_t size) : size_(size) {}

 private:
  size_t size_;
};

// A place in a buffer. A kernel gets it as two parameters: the buffer, then the offset in bytes
// (ULONG). Without a buffer: the kernel reads nothing there.
struct View {
  const Buffer* buffer = nullptr;
  uint64_t offset = 0;  // Bytes.

  View operator+(uint64_t bytes) const { return {buffer, offset + bytes}; }
  explicit operator bool() const { return buffer != nullptr; }
};

// A function of a program. It must not outlive it.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

class Program {
 public:
  virtual ~Program() = default;
  // The function `name`; kInternal if there is none.
  virtual StatusOr<std::unique_ptr<Kernel>> Find(const char* name) = 0;
};

// The kernel's parameters have the types int, float, and for a View uchar* and ulong.
using Argument = std::variant<int32_t, float, View>;

// How many groups of lanes a kernel is run by.
struct Groups {
  int32_t x = 1;
  int32_t y = 1;
};

// What is asked of the device happens in order. Launch, Write and Read return before it has
// happened; what fails then, or is rejected, is said by Finish.
//
// Thread rule: one thread at a time.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const DeviceInfo& info() const = 0;

  // `size` >= 1. kResourceExhausted if the device has no such memory.
  virtual StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size) = 0;

  // Compiles a source in the kernel language (device/language.cl). kInternal, with what the
  // compiler said, if it does not accept it.
  virtual StatusOr<std::unique_ptr<Program>> Build(const std::string& source) = 0;

  // `bytes` must live, unchanged and not read, until Finish has returned.
  virtual void Write(View to, std::span<const std::byte> bytes) = 0;
  virtual void Read(View from, std::span<std::byte> bytes) = 0;

  // Runs the kernel by `groups` groups of `lanes` lanes each. No groups: nothing happens.
  virtual void Launch(const Kernel& kernel, Groups groups, int lanes,
                      std::initializer_list<Argument> arguments) = 0;

  // Waits for all that was asked for. An error (kInternal, with its cause) means that the device is
  // lost: nothing more can be asked of it.
  virtual Status Finish() = 0;
};

// The name of an element's type is the host's business: a span of any plain values as bytes.
template <typename T>
std::span<const std::byte> AsBytes(const T& values) {
  return std::as_bytes(std::span(values));
}
template <typename T>
std::span<std::byte> AsWritableBytes(T& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_GPU_H_
