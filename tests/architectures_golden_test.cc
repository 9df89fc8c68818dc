// Each architecture against Hugging Face transformers: log-probs and greedy tokens of tiny random
// models equal those of tests/architectures/NAME.txt, which make_goldens.py there makes. Its
// docstring says what each of the two bounds proves.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sha256.h"
#include "determinism_harness.h"
#include "model/gguf.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"

namespace ropeway::test::testing {
namespace {

// From the model with K and V in f16, as Ropeway's cache holds them, ...
constexpr double kMostDifference = 1e-3;
// ... and from the model as it is: what f16 changes in transformers' own log-probs (the most is
// 7.43e-3, in mixtral.txt) comes on top.
constexpr double kMostDifferenceFromExact = 8.5e-3;
constexpr double kTieGap = 2e-3;  // As in make_goldens.py.
constexpr int kTopsOfRow = 3;

struct GoldenRow {
  int position = 0;
  double logprob = 0;  // Of the id behind it.
  std::vector<std::pair<TokenId, double>> tops;
};

// What follows the first `prompt` ids.
struct GrownStep {
  TokenId token = 0;
  double half = 0;   // Its log-prob with K and V in f16,
  double exact = 0;  // and as it is.
};

// A golden file: its lines are explained in make_goldens.py.
struct Golden {
  std::string weights;
  int ids = 0;
  std::vector<GoldenRow> rows;
  std::vector<GoldenRow> exact;
  // Router margins by position.
  std::map<int, double> near;
  std::map<int, double> other;
  int greedy_prompt = 0;
  std::vector<TokenId> greedy;
  std::map<int, double> ties;  // Gaps by step.
  // By the prompt's ids, and how often that number came before; in order of steps.
  std::map<std::pair<int, int>, std::vector<GrownStep>> grown;
  std::map<std::pair<int, int>, double> grown_ties;  // Gaps by prompt and step.
};

Golden ReadGolden(const std::string& name) {
  const std::string path = std::string(ROPEWAY_GOLDEN_FOLDER) + "/" + name + ".txt";
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error(path + " is missing: tests/architectures/make_goldens.py makes it");
  }
  Golden golden;
  std::map<int, int> runs;  // Of `grown`, by prompt.
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    int at = 0;
    double value = 0;
    if (kind == "weights") {
      words >> golden.weights;
    } else if (kind == "ids") {
      words >> golden.ids;
    } else if (kind == "row" || kind == "exact") {
      GoldenRow& row = (kind == "row" ? golden.rows : golden.exact).emplace_back();
      words >> row.position >> row.logprob;
      while (words >> at >> value) row.tops.push_back({at, value});
    } else if (kind == "near" && words >> at >> value) {
      golden.near[at] = value;
    } else if (kind == "other" && words >> at >> value) {
      golden.other[at] = value;
    } else if (kind == "tie" && words >> at >> value) {
      golden.ties[at] = value;
    } else if (kind == "grown") {
      int step = 0;
      GrownStep its;
      words >> at >> step >> its.token >> its.half >> its.exact;
      runs[at] += step == 0 ? 1 : 0;
      golden.grown[{at, runs[at]}].push_back(its);
    } else if (kind == "grown_tie") {
      int step = 0;
      words >> at >> step >> value;
      golden.grown_ties[{at, step}] = value;
    } else if (kind == "greedy") {
      words >> golden.greedy_prompt;
      while (words >> at) golden.greedy.push_back(at);
    }
  }
  return golden;
}

// SHA-256 of the names and bytes of all tensors, in the order of the names; those of RoPE's factors
// aside, which transformers computes from its configuration.
std::string ChecksumOf(const model::GgufFile& file) {
  std::map<std::string, const model::GgufTensor*> tensors;
  for (const model::GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with("rope_")) tensors[std::string(tensor.name)] = &tensor;
  }
  base::Sha256Stream sum;
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::byte> bytes(tensor->bytes);
    const Status read = file.Read(tensor->begin, bytes);
    EXPECT_TRUE(read.ok()) << read.message();
    sum.Add(name.data(), name.size());
    sum.Add(bytes.data(), bytes.size());
  }
  return base::HexText(sum.End());
}

// As token_ids of tiny_weights.py.
std::vector<TokenId> GoldenIds(int count) {
  base::SeededRandom random(7);
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(random.Next64() % uint64_t{model::kTinyVocab}));
  }
  return ids;
}

// The log-prob of each position's id, and the best ones there.
struct ScoredRow {
  double logprob = 0;
  std::vector<std::pair<TokenId, double>> tops;
};

std::vector<ScoredRow> RowsOf(const Output& output) {
  std::vector<ScoredRow> rows;
  size_t next = 1;  // The first position has no log-prob.
  const auto take = [&] { return output.scored_bits.at(next++); };
  while (next < output.scored_bits.size()) {
    ScoredRow& row = rows.emplace_back();
    row.logprob = std::bit_cast<float>(take());
    for (int i = 0; i < kTopsOfRow; ++i) {
      const auto id = static_cast<TokenId>(take());
      row.tops.push_back({id, std::bit_cast<float>(take())});
    }
  }
  return rows;
}

double DifferenceOf(const ScoredRow& row, const GoldenRow& golden) {
  EXPECT_EQ(golden.tops.size(), row.tops.size());
  double difference = std::fabs(row.logprob - golden.logprob);
  for (size_t i = 0; i < std::min(row.tops.size(), golden.tops.size()); ++i) {
    difference = std::max(difference, std::fabs(row.tops[i].second - golden.tops[i].second));
  }
  return difference;
}

class ArchitectureGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = ReadGolden(GetParam());
    const model::TempFile temp(model::TinyModel(GetParam()).Bytes());
    auto file = model::OpenModel(temp.path());
    ASSERT_TRUE(file.ok()) << file.status().message();
    checksum_ = ChecksumOf(**file);
    auto loaded = executor::Weights::Load(**file, 1);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = *std::move(loaded);
  }

  // Runs one request in an engine of its own.
  Output Run(core::CoreRequest request, int chunk) const {
    request.id = 1;
    request.ignore_eos = true;
    request.spec.params.temperature = 0;
    CrowdOptions options;
    options.model = model_;
    options.chunk = chunk;
    options.max_model_len = model::kTinyModelContext;
    return RunCrowd({std::move(request)}, options, kernels::ChooseKernels(nullptr)).outputs.at(1);
  }

  // The rows of the golden prompt.
  std::vector<ScoredRow> Score() const {
    core::CoreRequest request;
    request.prompt = GoldenIds(golden_.ids);
    request.max_tokens = 0;
    request.spec.num_prompt_logprobs = kTopsOfRow;
    return RowsOf(Run(request, 100));
  }

  // Holds all rows against golden ones, but those at positions where a router is near a tie.
  void Compare(const std::vector<GoldenRow>& golden_rows, const std::map<int, double>& ties,
               double most) const;

  Golden golden_;
  std::string checksum_;
  std::shared_ptr<const executor::Weights> model_;
};

TEST_P(ArchitectureGolden, TheWeightsAreThose) { EXPECT_EQ(checksum_, golden_.weights); }

void ArchitectureGolden::Compare(const std::vector<GoldenRow>& golden_rows,
                                 const std::map<int, double>& ties, double most) const {
  const std::vector<ScoredRow> rows = Score();
  ASSERT_EQ(static_cast<int>(rows.size()), golden_.ids - 1);
  double worst = 0;
  int counted = 0;
  int within = 0;
  for (const GoldenRow& golden : golden_rows) {
    const ScoredRow& row = rows.at(static_cast<size_t>(golden.position));
    const double difference = DifferenceOf(row, golden);
    if (const auto tie = ties.find(golden.position); tie != ties.end()) {
      std::printf("position %d: a router's margin is %.1e, the difference %.1e\n", golden.position,
                  tie->second, difference);
      continue;
    }
    ++counted;
    within += difference <= kMostDifference ? 1 : 0;
    worst = std::max(worst, difference);
    EXPECT_LE(difference, most) << "position " << golden.position;
    const double gap = golden.tops.at(0).second - golden.tops.at(1).second;
    // Two log-probs that may each be off by `most`.
    if (gap > std::max(kTieGap, 2 * most)) {
      EXPECT_EQ(row.tops.at(0).first, golden.tops.at(0).first) << "position " << golden.position;
    }
  }
  EXPECT_GE(counted, 64);
  std::printf("%s: %d positions, the worst difference %.2e; %d within %.0e\n", GetParam().c_str(),
              counted, worst, within, kMostDifference);
  RecordProperty("worst_difference", std::to_string(worst));
}

TEST_P(ArchitectureGolden, LogProbsAreThoseOfTransformersWithAnF16Cache) {
  Compare(golden_.rows, golden_.near, kMostDifference);
}

TEST_P(ArchitectureGolden, LogProbsAreNearThoseOfUnmodifiedTransformers) {
  ASSERT_EQ(golden_.exact.size(), golden_.rows.size());
  Compare(golden_.exact, golden_.other, kMostDifferenceFromExact);
}

TEST_P(ArchitectureGolden, GreedyTokensAreThoseOfTransformersUpToTies) {
  core::CoreRequest request;
  request.prompt = GoldenIds(golden_.greedy_prompt);
  request.max_tokens = static_cast<int32_t>(golden_.greedy.size());
  const std::vector<TokenId> tokens = Run(request, 16).tokens;
  ASSERT_EQ(tokens.size(), golden_.greedy.size());
  const auto [ours, theirs] = std::mismatch(tokens.begin(), tokens.end(), golden_.greedy.begin());
  if (ours == tokens.end()) return;
  const int step = static_cast<int>(ours - tokens.begin());
  ASSERT_TRUE(golden_.ties.contains(step))
      << "step " << step << ": " << *ours << ", and " << *theirs << " by transformers";
  std::printf("a tie at step %d: %d and %d are %.1e apart\n", step, *ours, *theirs,
              golden_.ties.at(step));
}

// Of LongRoPE: the factors are those of the sequence's length at each step, as where transformers
// has no cache.
class LongRopeGolden : public ArchitectureGolden {};

TEST_P(LongRopeGolden, FactorsFollowTheLengthAsInTransformersWithoutACache) {
  int crossed = 0;
  for (const auto& [run, steps] : golden_.grown) {
    core::CoreRequest request;
    request.prompt = GoldenIds(run.first);
    request.max_tokens = static_cast<int32_t>(steps.size());
    request.spec.num_logprobs = 0;
    const Output output = Run(request, 16);
    ASSERT_EQ(output.tokens.size(), steps.size());
    const int32_t above = model_->config().long_rope_above();
    const int32_t computed = run.first + request.max_tokens - 1;  // Not the last token.
    crossed += run.first <= above && computed > above ? 1 : 0;
    for (size_t step = 0; step < steps.size(); ++step) {
      SCOPED_TRACE(std::to_string(run.first) + " ids and " + std::to_string(step));
      if (golden_.grown_ties.contains({run.first, static_cast<int>(step)}) &&
          output.tokens[step] != steps[step].token) {
        break;
      }
      ASSERT_EQ(output.tokens[step], steps[step].token);
      const double logprob = std::bit_cast<float>(output.logprob_bits[step]);
      EXPECT_NEAR(logprob, steps[step].half, kMostDifference);
      EXPECT_NEAR(logprob, steps[step].exact, kMostDifferenceFromExact);
    }
  }
  EXPECT_EQ(crossed, 3);
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureGolden, ::testing::ValuesIn(model::TinyModelNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Models, LongRopeGolden, ::testing::Values("phi3long"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ropeway::test::testing
