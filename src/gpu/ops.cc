#include "gpu/ops.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "gpu/constants.h"
#include "gpu/text.h"
#include "kernels/weight_format.h"

namespace ropeway::gpu {
namespace {

using kernels::WeightFormat;
using kernels::WeightType;

constexpr const char* kRowKernels[] = {"rms_norm", "layer_norm", "rope",          "activate",
                                       "add",      "scale",      "gather",        "sum_scaled",
                                       "sigmoid",  "pack",       "choose_experts"};
constexpr const char* kAttentionKernels[] = {"store_kv", "attend", "attend_merge"};
constexpr const char* kLogitsKernels[] = {"finish_logits", "largest"};
constexpr const char* kTypeKernels[] = {"matmul", "unpack"};
constexpr const char* kQuantisedTypeKernels[] = {"matmul", "matmul_few", "unpack"};

std::string Source(std::initializer_list<const char*> texts) {
  std::string source;
  for (const auto& [name, value] : kConstants) {
    source += fmt::format("#define {} {}\n", name, value);
  }
  for (const char* text : texts) {
    source += text;
    source += '\n';
  }
  return source;
}

// What device/matmul.cl needs to know of a type.
std::string DefinesOf(WeightType type) {
  const WeightFormat& format = kernels::FormatOf(type);
  std::string text;
  const auto define = [&text](const char* name, auto value) {
    text += fmt::format("#define {} {}\n", name, value);
  };
  define("WIDTH", format.quantised() ? 0 : format.block_bytes);  // Bytes of a float; 0: quantised.
  define("IS_BF16", type == WeightType::kBF16 ? 1 : 0);
  define("UNIT_BLOCKS", format.panel.blocks);
  define("UNIT_BYTES", format.panel.bytes);
  define("SCALE_STEP", format.panel.scale_step);
  define("CODES", format.panel.codes);
  define("CODE_STEP", format.panel.code_step);
  define("LINES", format.panel.lines);
  define("BITS", format.panel.bits);
  define("SCALE_KIND", static_cast<int>(format.scales));  // In the order of ScaleKind.
  define("HAS_MIN", format.has_min() ? 1 : 0);
  define("PARTS", format.of_parts() ? 2 : 1);
  define("OFFSET", format.offset());
  define("HAS_VALUES", format.values != nullptr ? 1 : 0);
  text += "#define VALUES ";
  for (int i = 0; format.values != nullptr && i < 16; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", format.values[i]);
  }
  return text + "\n";
}

}  // namespace

struct Ops::Programs {
  using Kernels = std::map<std::string, std::unique_ptr<Kernel>, std::less<>>;

  // Builds the source and finds the functions.
  Status Add(Gpu* gpu, const std::string& source, std::span<const char* const> names,
             Kernels* kernels) {
    StatusOr<std::unique_ptr<Program>> program = gpu->Build(source);
    if (!program.ok()) return program.status();
    Kernels found;
    for (const char* name : names) {
      StatusOr<std::unique_ptr<Kernel>> kernel = (*program)->Find(name);
      if (!kernel.ok()) return kernel.status();
      found.emplace(name, *std::move(kernel));
    }
    programs.push_back(*std::move(program));
    kernels->merge(found);
    return {};
  }

  std::vector<std::unique_ptr<Program>> programs;
  Kernels common;
  std::map<WeightType, Kernels> of_type;
};

StatusOr<std::unique_ptr<Ops>> Ops::Make(Gpu* gpu) {
  std::unique_ptr<Ops> ops(new Ops(gpu));
  const std::pair<const char*, std::span<const char* const>> parts[] = {
      {kRowsText, kRowKernels}, {kAttentionText, kAttentionKernels}, {kLogitsText, kLogitsKernels}};
  for (const auto& [text, names] : parts) {
    Status added =
        ops->programs_->Add(gpu, Source({kLanguageText, kMathConstantsText, kFloatsText, text}),
                            names, &ops->programs_->common);
    if (!added.ok()) return added;
  }
  return ops;
}

std::unique_ptr<Ops> Ops::MakeForTypes(Gpu* gpu) { return std::unique_ptr<Ops>(new Ops(gpu)); }

Ops::Ops(Gpu* gpu) : gpu_(gpu), programs_(std::make_unique<Programs>()) {}
Ops::~Ops() = default;

Status Ops::AddType(WeightType type) {
  if (programs_->of_type.contains(type)) return {};
  const std::string defines = DefinesOf(type);
  Programs::Kernels found;
  Status added = programs_->Add(
      gpu_, Source({kLanguageText, kMathConstantsText, kFloatsText, defines.c_str(), kMatMulText}),
      kernels::FormatOf(type).quantised() ? std::span<const char* const>(kQuantisedTypeKernels)
                                          : std::span<const char* const>(kTypeKernels),
      &found);
  if (added.ok()) programs_->of_type.emplace(type, std::move(found));
  return added;
}

const Kernel& Ops::Get(const char* name) const { return *programs_->common.find(name)->second; }

const Kernel& Ops::Get(WeightType type, const char* name) const {
  return *programs_->of_type.find(type)->second.find(name)->second;
}

}  // namespace ropeway::gpu
