// The whole sampler against a plain one, in double, that follows the definition in sampler.h step
// by step; and against itself on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/random.h"
#include "sampling/sampler.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

constexpr int kDefinitionVocab = 700;

struct Case {
  std::vector<float> logits;
  core::SampleSpec spec;
  std::vector<TokenId> ids;
  std::vector<uint32_t> mask;
};

// Any mask, of any length; one of the tokens that end the text; or none.
std::vector<uint32_t> RandomCaseMask(const core::SampleSpec& spec, std::mt19937* random) {
  switch ((*random)() % 8) {
    case 0:
    case 1:
    case 2:
      return RandomMask(1 + (*random)() % (kDefinitionVocab / 32 + 3), random);
    case 3: {
      std::vector<uint32_t> ends = {0};
      for (const TokenId id : spec.end_ids) Allow(id, &ends);
      return ends;
    }
    default:
      return {};
  }
}

// Any mix of parameters, each off in half of the cases.
Case RandomDefinitionCase(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int below) {
    return static_cast<int>(random() % static_cast<uint32_t>(below));
  };
  const auto uniform = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(pick(1000003)) / 1000003.0F;
  };
  Case c;
  const float width = uniform(1, 25);
  for (int i = 0; i < kDefinitionVocab; ++i) {
    c.logits.push_back(uniform(-width, width));
    if (pick(60) == 0) c.logits.back() = pick(2) == 0 ? -kInf : std::nanf("");
  }
  for (int i = 1 + pick(200); i > 0; --i) c.ids.push_back(pick(kDefinitionVocab));
  c.spec.prompt_len = pick(static_cast<int>(c.ids.size()));
  c.spec.seed = seed;
  SamplingParams& p = c.spec.params;
  p.temperature = pick(6) == 0 ? 0.0F : uniform(0.2F, 2);
  if (pick(2) != 0) p.top_k = 1 + pick(kDefinitionVocab + 10);
  if (pick(2) != 0) p.typical_p = uniform(0.05F, 1);
  if (pick(2) != 0) p.top_p = uniform(0.05F, 1);
  if (pick(2) != 0) p.min_p = uniform(0, 1) * uniform(0, 1);
  if (pick(2) != 0) p.repetition_penalty = uniform(0.3F, 3);
  if (pick(2) != 0) p.presence_penalty = uniform(-2, 2);
  if (pick(2) != 0) p.frequency_penalty = uniform(-2, 2);
  if (pick(2) != 0)
    p.logit_bias = {{pick(kDefinitionVocab), uniform(-100, 30)}, {pick(kDefinitionVocab), 5.0F}};
  if (pick(2) != 0) {
    p.min_tokens = 1000;
    for (int i = 0; i < 20; ++i) c.spec.end_ids.push_back(pick(kDefinitionVocab));
  }
  c.spec.num_logprobs = 3;
  c.mask = RandomCaseMask(c.spec, &random);
  return c;
}

class PlainSampler {
 public:
  explicit PlainSampler(const Case& c) : params_(c.spec.params), order_(kDefinitionVocab) {
    for (TokenId id = 0; id < kDefinitionVocab; ++id) logits_.push_back(Adjusted(c, id));
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return logits_[a] > logits_[b]; });
  }

  // -1: there is none.
  TokenId Draw(double u) {
    if (std::isinf(logits_[order_[0]])) return -1;
    if (params_.temperature == 0.0F) return static_cast<TokenId>(order_[0]);
    for (const double l : logits_) {
      p_.push_back(std::exp((l - logits_[order_[0]]) / double{params_.temperature}));
    }
    const bool top_k = params_.top_k > 0 && params_.top_k < kDefinitionVocab;
    if (top_k) KeepFirst(order_, static_cast<size_t>(params_.top_k));
    if (params_.typical_p < 1) KeepTypical();
    if (params_.top_p < 1) KeepUntil(order_, double{params_.top_p});
    const double least = *std::max_element(p_.begin(), p_.end()) * double{params_.min_p};
    for (double& p : p_) p = p < least ? 0 : p;
    if (!top_k && params_.top_p == 1) std::sort(order_.begin(), order_.end());
    const double total = std::accumulate(p_.begin(), p_.end(), 0.0);
    double sum = 0;
    for (const size_t id : order_) {
      sum += p_[id];
      if (sum > u * total) return static_cast<TokenId>(id);
    }
    return -1;
  }

 private:
  static double Adjusted(const Case& c, TokenId id) {
    const SamplingParams& p = c.spec.params;
    double l = double{c.logits[static_cast<size_t>(id)]};
    if (std::isnan(l)) return -std::numeric_limits<double>::infinity();
    for (const LogitBias& bias : p.logit_bias) l += bias.id == id ? double{bias.bias} : 0.0;
    if (std::count(c.ids.begin(), c.ids.end(), id) > 0) {
      l = l > 0 ? l / double{p.repetition_penalty} : l * double{p.repetition_penalty};
    }
    const auto times = std::count(c.ids.begin() + c.spec.prompt_len, c.ids.end(), id);
    l -= double{p.frequency_penalty} * static_cast<double>(times);
    if (times > 0) l -= double{p.presence_penalty};
    const bool forbidden = p.min_tokens > 0 && Ends(c, id) && !MustEnd(c);
    const bool allowed = c.mask.empty() || Allows(c.mask, id);
    return forbidden || !allowed ? -std::numeric_limits<double>::infinity() : l;
  }

  static bool Ends(const Case& c, TokenId id) {
    return std::count(c.spec.end_ids.begin(), c.spec.end_ids.end(), id) > 0;
  }

  static bool MustEnd(const Case& c) {
    if (c.mask.empty()) return false;
    for (TokenId id = 0; id < kDefinitionVocab; ++id) {
      if (Allows(c.mask, id) && !Ends(c, id)) return false;
    }
    return true;
  }

  void KeepFirst(const std::vector<size_t>& order, size_t count) {
    for (size_t rank = count; rank < order.size(); ++rank) p_[order[rank]] = 0;
  }

  void KeepUntil(const std::vector<size_t>& order, double part) {
    const double total = std::accumulate(p_.begin(), p_.end(), 0.0);
    double sum = 0;
    size_t count = 0;
    while (count < order.size() && sum < part * total) sum += p_[order[count++]];
    KeepFirst(order, count);
  }

  void KeepTypical() {
    const double total = std::accumulate(p_.begin(), p_.end(), 0.0);
    double entropy = 0;
    for (const double p : p_) entropy -= p > 0 ? p / total * std::log(p / total) : 0;
    std::vector<size_t> order(kDefinitionVocab);
    std::iota(order.begin(), order.end(), 0U);
    const auto distance = [&](size_t id) { return std::fabs(entropy + std::log(p_[id] / total)); };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return distance(a) < distance(b); });
    KeepUntil(order, double{params_.typical_p});
  }

  const SamplingParams params_;
  std::vector<double> logits_;
  std::vector<size_t> order_;
  std::vector<double> p_;
};

TEST(SamplerDefinitionTest, DrawsWhatAPlainOneDraws) {
  Sampler sampler(&kernels::kReferenceKernels, kDefinitionVocab);
  std::vector<int> seen(kDefinitionVocab);
  int masked = 0;
  int ends = 0;
  int invalid = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Case c = RandomDefinitionCase(seed);
    core::Sampled out;
    const auto position = static_cast<int64_t>(c.ids.size());
    sampler.Sample(c.logits, c.spec, c.ids, position, c.mask, &out);
    const double u = base::SampleUniform(c.spec.seed, 0, static_cast<uint64_t>(position));
    ASSERT_EQ(out.invalid ? -1 : out.token, PlainSampler(c).Draw(u)) << "seed " << seed;
    ++seen[static_cast<size_t>(out.token)];
    const auto& end_ids = c.spec.end_ids;
    masked += !out.invalid && !c.mask.empty() ? 1 : 0;
    ends += !out.invalid && std::count(end_ids.begin(), end_ids.end(), out.token) > 0 ? 1 : 0;
    invalid += out.invalid ? 1 : 0;
  }
  EXPECT_GT(masked, 1000);
  EXPECT_GT(ends, 100);  // Where the mask leaves nothing else.
  EXPECT_GT(invalid, 100);
  EXPECT_GT(std::count_if(seen.begin(), seen.end(), [](int n) { return n > 0; }),
            kDefinitionVocab / 2);
}

// Purity: the same inputs, the same outcome, whatever the sampler did before, and on every
// instruction set to the bit.
TEST(SamplerDefinitionTest, EveryInstructionSetAndEveryHistoryDrawTheSame) {
  Sampler used(&kernels::kReferenceKernels, kDefinitionVocab);
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Case c = RandomDefinitionCase(seed);
    const auto position = static_cast<int64_t>(c.ids.size());
    core::Sampled expected;
    expected.top_logprobs.resize(3);
    used.Sample(c.logits, c.spec, c.ids, position, c.mask, &expected);
    for (const char* name : {"reference", "avx2", "avx512vnni"}) {
      const kernels::Kernels* kernels = kernels::KernelsByName(name);
      if (kernels == nullptr) continue;  // The kernels' own tests say what this machine lacks.
      core::Sampled out;
      out.top_logprobs.resize(3);
      Sampler(kernels, kDefinitionVocab).Sample(c.logits, c.spec, c.ids, position, c.mask, &out);
      ASSERT_EQ(out.token, expected.token) << name << ", seed " << seed;
      if (std::isnan(expected.logprob)) {  // A NaN's bits are not defined.
        ASSERT_TRUE(std::isnan(out.logprob));
      } else {
        ASSERT_EQ(out.logprob, expected.logprob);
      }
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(out.top_logprobs[i].id, expected.top_logprobs[i].id);
      }
    }
  }
}

}  // namespace
}  // namespace ropeway::sampling
