// For tests: a device that is lost, whose memory ends, or that computes otherwise.
#ifndef ROPEWAY_EXECUTOR_TEST_FAILING_GPU_H_
#define ROPEWAY_EXECUTOR_TEST_FAILING_GPU_H_

#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "gpu/gpu.h"

namespace ropeway::executor::testing {

// Passes on to a real device until it fails.
class FailingGpu final : public gpu::Gpu {
 public:
  explicit FailingGpu(std::unique_ptr<gpu::Gpu> real) : real_(std::move(real)) {}

  void LoseAfter(int finishes) { finishes_ = finishes; }
  void LimitMemory(size_t bytes) { memory_ = bytes; }
  size_t allocated() const { return allocated_; }
  // In each source that has it, `from` becomes `to`.
  void Plant(std::string from, std::string to) {
    from_ = std::move(from);
    to_ = std::move(to);
  }

  const gpu::DeviceInfo& info() const override { return real_->info(); }
  StatusOr<std::unique_ptr<gpu::Buffer>> Allocate(size_t size) override {
    if (size > memory_ - allocated_) {
      return Status(StatusCode::kResourceExhausted, "the device has no more memory");
    }
    allocated_ += size;
    return real_->Allocate(size);
  }
  StatusOr<std::unique_ptr<gpu::Program>> Build(const std::string& source) override {
    const size_t at = from_.empty() ? std::string::npos : source.find(from_);
    if (at == std::string::npos) return real_->Build(source);
    return real_->Build(std::string(source).replace(at, from_.size(), to_));
  }
  void Write(gpu::View to, std::span<const std::byte> bytes) override { real_->Write(to, bytes); }
  void Read(gpu::View from, std::span<std::byte> bytes) override { real_->Read(from, bytes); }
  void Launch(const gpu::Kernel& kernel, gpu::Groups groups, int lanes,
              std::initializer_list<gpu::Argument> arguments) override {
    real_->Launch(kernel, groups, lanes, arguments);
  }
  Status Finish() override {
    Status done = real_->Finish();
    if (finishes_ > 0) {
      --finishes_;
      return done;
    }
    return Status(StatusCode::kInternal, "the device is lost: a test took it away");
  }

 private:
  const std::unique_ptr<gpu::Gpu> real_;
  int finishes_ = std::numeric_limits<int>::max();
  size_t memory_ = std::numeric_limits<size_t>::max();
  size_t allocated_ = 0;
  std::string from_;
  std::string to_;
};

}  // namespace ropeway::executor::testing

#endif  // ROPEWAY_EXECUTOR_TEST_FAILING_GPU_H_
