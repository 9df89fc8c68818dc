// For tests: a device that does all at the last moment, so that memory which is changed too early
// is seen.
#ifndef ROPEWAY_EXECUTOR_TEST_DELAYING_GPU_H_
#define ROPEWAY_EXECUTOR_TEST_DELAYING_GPU_H_

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu.h"

namespace ropeway::executor::testing {

// Asks a real device in Finish for what was asked for since the last one.
class DelayingGpu final : public gpu::Gpu {
 public:
  explicit DelayingGpu(std::unique_ptr<gpu::Gpu> real) : real_(std::move(real)) {}

  const gpu::DeviceInfo& info() const override { return real_->info(); }
  StatusOr<std::unique_ptr<gpu::Buffer>> Allocate(size_t size) override {
    return real_->Allocate(size);
  }
  StatusOr<std::unique_ptr<gpu::Program>> Build(const std::string& source) override {
    return real_->Build(source);
  }
  void Write(gpu::View to, std::span<const std::byte> bytes) override {
    asked_.emplace_back([this, to, bytes] { real_->Write(to, bytes); });
  }
  void Read(gpu::View from, std::span<std::byte> bytes) override {
    asked_.emplace_back([this, from, bytes] { real_->Read(from, bytes); });
  }
  void Launch(const gpu::Kernel& kernel, gpu::Groups groups, int lanes,
              std::initializer_list<gpu::Argument> arguments) override {
    asked_.emplace_back([this, &kernel, groups, lanes, kept = std::vector(arguments)] {
      LaunchWith<kMostArguments>(kernel, groups, lanes, kept);
    });
  }
  Status Finish() override {
    for (const std::function<void()>& ask : asked_) ask();
    asked_.clear();
    return real_->Finish();
  }

 private:
  static constexpr size_t kMostArguments = 30;

  // A list of so many arguments, or of fewer: the length of an initializer_list is no number at run
  // time.
  template <size_t kCount>
  void LaunchWith(const gpu::Kernel& kernel, gpu::Groups groups, int lanes,
                  const std::vector<gpu::Argument>& arguments) {
    if constexpr (kCount > 0) {
      if (arguments.size() < kCount)
        return LaunchWith<kCount - 1>(kernel, groups, lanes, arguments);
    }
    [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
      real_->Launch(kernel, groups, lanes, {arguments[kIndex]...});
    }
    (std::make_index_sequence<kCount>());
  }

  const std::unique_ptr<gpu::Gpu> real_;
  std::vector<std::function<void()>> asked_;
};

}  // namespace ropeway::executor::testing

#endif  // ROPEWAY_EXECUTOR_TEST_DELAYING_GPU_H_
