#include "bench/determinism_rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ropeway {
namespace {

// From low to high, small numbers as likely as large ones.
int LogUniform(double low, double high, Random* random) {
  const double part = static_cast<double>(random->Below(1 << 20)) / (1 << 20);
  return static_cast<int>(std::lround(low * std::pow(high / low, part)));
}

float Tenths(int64_t low, int64_t high, Random* random) {
  return static_cast<float>(random->Between(low, high)) / 10.0F;
}

}  // namespace

std::vector<const Kernels*> TablesToAsk() {
  const char* forced = std::getenv("ROPEWAY_ISA");
  const Kernels* chosen = ChooseKernels(nullptr);
  if (chosen == nullptr) return {};
  std::vector<const Kernels*> tables = {chosen};
  if (forced != nullptr && forced[0] != '\0') return tables;
  for (const char* name : {"avx512vnni", "avx2"}) {
    const Kernels* table = KernelsByName(name);
    if (table != nullptr && table != chosen) tables.push_back(table);
  }
  return tables;
}

RoundSettings DrawSettings(int round, const std::vector<const Kernels*>& tables, int longest,
                           int cores, Random* random) {
  RoundSettings settings;
  const auto index = static_cast<size_t>(round);
  settings.kernels = tables[index / 2 % tables.size()];
  settings.prefix_caching = (round + round / 2 + round / 4) % 2 == 1;
  const int most = std::max(2, cores);
  settings.threads = round % 2 == 0 ? static_cast<int>(random->Between(2, most)) : 1;
  settings.max_num_batched_tokens = LogUniform(16, 512, random);
  settings.max_prefill_chunk = random->Chance(0.75) ? LogUniform(1, 32, random) : 0;
  settings.max_num_seqs =
      std::min(static_cast<int>(random->Between(6, 32)), settings.max_num_batched_tokens);
  const int longest_blocks = (longest + kBlockTokens - 1) / kBlockTokens;
  const bool tight = round % 4 != 3;
  // Asks share their prompt's blocks, so that less than two sequences' worth is tight.
  settings.num_blocks = tight
                            ? longest_blocks + static_cast<int>(random->Between(1, longest_blocks))
                            : longest_blocks * settings.max_num_seqs;
  return settings;
}

CoreRequest DrawCompany(RequestId id, int32_t vocab_size, Random* random) {
  CoreRequest request;
  request.id = id;
  const int64_t length = random->Between(1, kMaxCompanyPrompt);
  for (int64_t i = 0; i < length; ++i) {
    const auto token = random->Below(static_cast<uint64_t>(vocab_size));
    request.prompt.push_back(static_cast<TokenId>(token));
  }
  request.max_tokens = static_cast<int32_t>(random->Between(1, kMaxCompanyTokens));
  request.ignore_eos = random->Chance(0.5);
  SampleSpec& spec = request.spec;
  spec.seed = random->Next64();
  if (random->Chance(0.3)) spec.num_logprobs = static_cast<int32_t>(random->Between(0, 20));
  if (random->Chance(0.1)) spec.num_prompt_logprobs = 0;
  SamplingParams& params = spec.params;
  params.temperature = random->Chance(0.4) ? 0.0F : Tenths(1, 20, random);
  if (random->Chance(0.3)) params.top_p = Tenths(1, 9, random);
  if (random->Chance(0.3)) params.top_k = static_cast<int32_t>(random->Between(1, 100));
  if (random->Chance(0.2)) params.min_p = Tenths(0, 5, random);
  if (random->Chance(0.1)) params.typical_p = Tenths(2, 9, random);
  if (random->Chance(0.2)) params.repetition_penalty = Tenths(8, 15, random);
  if (random->Chance(0.1)) params.presence_penalty = Tenths(-10, 10, random);
  return request;
}

}  // namespace ropeway
