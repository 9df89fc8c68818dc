// print_kernels: writes what a GPU's compiler is given as JSON: the options for CUDA's, and each
// source with the names of its kernels. It needs no device.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda_library.h"
#include "gpu/ops.h"
#include "gpu/probe.h"
#include "kernels/kernels.h"

namespace ropeway::gpu {
namespace {

struct Source {
  std::string text;
  std::vector<std::string> kernels;
};

class ListedProgram final : public Program {
 public:
  explicit ListedProgram(Source* source) : source_(source) {}
  StatusOr<std::unique_ptr<Kernel>> Find(const char* name) override {
    source_->kernels.emplace_back(name);
    return std::make_unique<Kernel>();
  }

 private:
  Source* const source_;
};

// It has programs only, and keeps their sources.
class ListingGpu final : public Gpu {
 public:
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Buffer>> Allocate(size_t) override {
    return Status(StatusCode::kResourceExhausted, "there is no memory");
  }
  StatusOr<std::unique_ptr<Program>> Build(const std::string& source) override {
    sources.push_back(std::make_unique<Source>(Source{source, {}}));
    return std::unique_ptr<Program>(std::make_unique<ListedProgram>(sources.back().get()));
  }
  void Write(View, std::span<const std::byte>) override {}
  void Read(View, std::span<std::byte>) override {}
  void Launch(const Kernel&, Groups, int, std::initializer_list<Argument>) override {}
  Status Finish() override { return {}; }

  std::vector<std::unique_ptr<Source>> sources;

 private:
  DeviceInfo info_;
};

int Run() {
  ListingGpu gpu;
  const auto ops = Ops::Make(&gpu);
  if (!ops.ok()) return 1;
  // Its device computes nothing: only the source counts.
  [[maybe_unused]] const Status nothing = ProbeArithmetic(&gpu);
  std::vector<std::string> names;
  for (const auto& source : gpu.sources) names.push_back(source->kernels.front());
  for (const kernels::WeightType type : kernels::kWeightTypes) {
    if (!(*ops)->AddType(type).ok()) return 1;
    names.resize(gpu.sources.size(), kernels::WeightTypeName(type));
  }
  nlohmann::json printed = {{"options", kCudaOptions}};
  for (size_t i = 0; i < names.size(); ++i) {
    const Source& source = *gpu.sources[i];
    printed["sources"][names[i]] = {{"text", source.text}, {"kernels", source.kernels}};
  }
  std::cout << printed.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace ropeway::gpu

int main() { return ropeway::gpu::Run(); }
