#include "bench/bench_flags.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "engine/machine.h"
#include "model/gguf.h"

namespace ropeway {

int BenchFlags::resolved_threads() const { return threads > 0 ? threads : PhysicalCores(); }

void AddBenchFlags(CLI::App* app, BenchFlags* flags) {
  AddModelFlag(app, &flags->model);
  AddInt(app, "--threads,-t", &flags->threads, 1, 1024, "Compute threads")
      ->default_str("the physical cores");
}

void AddSecondsFlag(CLI::App* app, BenchFlags* flags, const std::string& of) {
  AddNumber(app, "--seconds", &flags->seconds, 0.001, 3600, of);
}

void AddKvTypeFlag(CLI::App* app, std::string* kv_cache_dtype) {
  AddChoice(app, "--kv-cache-dtype", kv_cache_dtype, {"f16", "q8_0"},
            "Number format of the KV cache: f16 or q8_0");
}

StatusOr<std::shared_ptr<const Model>> LoadModel(const BenchFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.model);
  if (!path.ok()) return path.status();
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return file.status();
  auto model = Model::Load(**file, flags.resolved_threads());
  if (!model.ok()) return model.status();
  return std::shared_ptr<const Model>(*std::move(model));
}

StatusOr<const Kernels*> ChooseTable(const std::string& isa) {
  if (isa.empty()) {
    const char* error = nullptr;
    const Kernels* kernels = ChooseKernels(&error);
    if (kernels == nullptr) return InvalidArgument(error);
    return kernels;
  }
  const Kernels* kernels = KernelsByName(isa.c_str());
  if (kernels == nullptr) return InvalidArgument("--isa: this CPU cannot run '" + isa + "'");
  return kernels;
}

}  // namespace ropeway
