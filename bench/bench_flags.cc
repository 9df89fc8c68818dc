#include "bench/bench_flags.h"

#include <fmt/format.h>

#include <string_view>

#include "base/words.h"
#include "engine/machine.h"
#include "model/open_model.h"

namespace ropeway::bench {

int BenchFlags::resolved_threads() const { return threads > 0 ? threads : engine::PhysicalCores(); }

std::vector<flags::Flag> ModelFlags(BenchFlags* flags, const char* seconds) {
  std::vector<flags::Flag> rows = {
      {"--model,-m", flags::TextValue(&flags->model, "FILE"),
       "GGUF file, or the name of a model that was fetched"},
      {"--threads,-t", flags::IntValue(&flags->threads, 1, 1024).Default("the physical cores"),
       "Compute threads"}};
  if (seconds != nullptr) {
    rows.push_back({"--seconds", flags::NumberValue(&flags->seconds, 0.001, 3600), seconds});
  }
  return rows;
}

flags::Flag KvTypeFlag(std::string* kv_cache_dtype) {
  return {"--kv-cache-dtype", flags::ChoiceValue(kv_cache_dtype, {"f16", "q8_0"}),
          "Number format of the KV cache: f16 or q8_0"};
}

StatusOr<std::vector<int>> ParseCounts(const std::string& flag, const std::string& text, int most) {
  std::vector<int> counts;
  std::string_view rest = text;
  for (;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const int value = base::ParseNumber<int>(word).value_or(0);
    if (value < 1 || value > most || (!counts.empty() && value <= counts.back())) {
      return InvalidArgument(
          fmt::format("{}: expected rising whole numbers, 1 to {}, with commas between, not '{}'",
                      flag, most, text));
    }
    counts.push_back(value);
    if (word.size() == rest.size()) return counts;
    rest.remove_prefix(word.size() + 1);
  }
}

StatusOr<std::unique_ptr<model::GgufFile>> OpenModelFile(const BenchFlags& flags) {
  const StatusOr<std::string> path = cli::ResolveModel(flags.model);
  if (!path.ok()) return path.status();
  return model::OpenModel(*path);
}

StatusOr<std::shared_ptr<const executor::Weights>> LoadModel(const BenchFlags& flags) {
  auto file = OpenModelFile(flags);
  if (!file.ok()) return file.status();
  auto model = executor::Weights::Load(**file, flags.resolved_threads());
  if (!model.ok()) return model.status();
  return std::shared_ptr<const executor::Weights>(*std::move(model));
}

StatusOr<const kernels::Kernels*> ChooseTable(const std::string& isa) {
  if (isa.empty()) {
    const char* error = nullptr;
    const kernels::Kernels* kernels = kernels::ChooseKernels(&error);
    if (kernels == nullptr) return InvalidArgument(error);
    return kernels;
  }
  const kernels::Kernels* kernels = kernels::KernelsByName(isa.c_str());
  if (kernels == nullptr) return InvalidArgument("--isa: this CPU cannot run '" + isa + "'");
  return kernels;
}

}  // namespace ropeway::bench
