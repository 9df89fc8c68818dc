// Attention: every table against the reference by bits, at the edges of blocks, softmax groups,
// splits and windows, for both types of the KV cache, with garbage in the slots that no row may
// see; the reference against double precision.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "kernels/test_util.h"

namespace ropeway::kernels::testing {
namespace {

struct Problem {
  int rows;
  int start;
  int group;
  int head_dim;
  KvType type = KvType::kF16;
  int window = 0;
  float soft_cap = 0.0F;
  int block_step = 1;
  int end = 0;

  int positions() const { return std::max(start + rows, end); }
  // The first position that the row sees.
  int first(int row) const { return window > 0 ? std::max(start + row + 1 - window, 0) : 0; }
};

// A paged KV cache of one head in shuffled blocks. Slots behind the last position are NaN, and so
// are their scales.
class Cache {
 public:
  Cache(const Problem& problem, Rng& rng, Values values = Values::kNormal)
      : positions_(problem.positions()),
        head_dim_(problem.head_dim),
        type_(problem.type),
        stride_(KvHeadBlockBytes(type_, head_dim_) + 64),
        blocks_(static_cast<size_t>((positions_ + base::kBlockTokens - 1) / base::kBlockTokens)),
        bytes_(stride_ * blocks_.size()) {
    for (size_t b = 0; b < blocks_.size(); ++b) blocks_[b] = static_cast<int32_t>(b);
    std::shuffle(blocks_.begin(), blocks_.end(), rng);
    table_.assign(blocks_.size() * static_cast<size_t>(problem.block_step), kNoBlock);
    const auto freed = static_cast<size_t>(problem.first(0) / base::kBlockTokens);
    for (size_t b = freed; b < blocks_.size(); ++b) {
      table_[b * static_cast<size_t>(problem.block_step)] = blocks_[b];
    }
    for (int t = 0; t < positions_; ++t) {
      for (std::vector<float>* row : {&k_, &v_}) {
        for (int d = 0; d < head_dim_; ++d) row->push_back(Activation(values, rng));
      }
    }
    Fill(positions_);
  }

  // Stores positions [0, count); everything behind them is NaN.
  void Fill(int count) {
    std::fill_n(bytes_.get(), bytes_.size(), std::byte{0xFF});  // NaN as f16 and as f32
    for (int t = 0; t < count; ++t) {
      std::byte* block =
          bytes_.get() +
          static_cast<size_t>(blocks_[static_cast<size_t>(t / base::kBlockTokens)]) * stride_;
      kReferenceKernels.store_kv(type_, &k_[static_cast<size_t>(t * head_dim_)],
                                 &v_[static_cast<size_t>(t * head_dim_)], head_dim_,
                                 t % base::kBlockTokens, block);
    }
  }

  AttentionArgs Args(const Problem& problem, const std::vector<float>& q) const {
    return {.q = q.data(),
            .q_stride = problem.group * problem.head_dim + 5,
            .scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim)),
            .soft_cap = problem.soft_cap,
            .rows = problem.rows,
            .start = problem.start,
            .window = problem.window,
            .end = problem.end,
            .group = problem.group,
            .head_dim = problem.head_dim,
            .kv_type = type_,
            .kv = bytes_.get(),
            .block_stride = stride_,
            .blocks = table_.data(),
            .block_step = problem.block_step,
            // A hint may name anything that is there.
            .next_kv = bytes_.get() + 64,
            .next_blocks = blocks_.data(),
            .next_count = static_cast<int32_t>(blocks_.size()) / problem.block_step};
  }

  float k(int t, int d) const { return Rounded(k_, t, d); }
  float v(int t, int d) const { return Rounded(v_, t, d); }

 private:
  float Rounded(const std::vector<float>& from, int t, int d) const {
    const float* row = &from[static_cast<size_t>(t * head_dim_)];
    if (type_ == KvType::kF16) return HalfToFloat(FloatToHalf(row[d]));
    float largest = 0;
    for (int i = 0; i < head_dim_; ++i) largest = std::max(largest, std::fabs(row[i]));
    const float scale = largest / 127.0F;
    return std::nearbyint(row[d] * (127.0F / largest)) * scale;
  }

  // The number of a block that no row sees: to read it leaves the memory.
  static constexpr int32_t kNoBlock = 1 << 28;

  int positions_;
  int head_dim_;
  KvType type_;
  size_t stride_;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> table_;  // [block][step]; step 0 is used.
  std::vector<float> k_;
  std::vector<float> v_;
  AlignedBytes bytes_;
};

std::vector<float> Queries(const Problem& problem, Rng& rng) {
  std::vector<float> q(static_cast<size_t>(problem.rows * (problem.group * problem.head_dim + 5)));
  for (float& value : q) value = 3.0F * Normal(rng);
  return q;
}

int Splits(const Problem& problem) {
  return (problem.positions() + kSplitTokens - 1) / kSplitTokens;
}

// Partial results of all splits: [split][row][head][PartialFloats].
std::vector<float> Partials(const Kernels& kernels, const Problem& problem,
                            const AttentionArgs& args) {
  const int entry = PartialFloats(problem.head_dim);
  const int per_split = problem.rows * problem.group * entry;
  std::vector<float> partial(static_cast<size_t>(Splits(problem) * per_split), 99.0F);
  for (int s = 0; s < Splits(problem); ++s) {
    kernels.attention(args, s, partial.data() + s * per_split);
  }
  // What follows m and l is padding without a meaning.
  for (size_t i = 0; i < partial.size(); ++i) {
    if (static_cast<int>(i) % entry >= problem.head_dim + 2) partial[i] = 0.0F;
  }
  return partial;
}

// `sinks`: one per head of the group, or nullptr.
std::vector<float> Merge(const Kernels& kernels, const Problem& problem,
                         const std::vector<float>& partials, const float* sinks = nullptr) {
  const int entries = problem.rows * problem.group;
  const int entry = PartialFloats(problem.head_dim);
  std::vector<float> out(static_cast<size_t>(entries * problem.head_dim));
  for (int i = 0; i < entries; ++i) {
    kernels.attention_merge(partials.data() + i * entry, Splits(problem),
                            static_cast<int64_t>(entries) * entry, problem.head_dim,
                            sinks != nullptr ? sinks + i % problem.group : nullptr,
                            out.data() + i * problem.head_dim);
  }
  return out;
}

std::string Describe(const Problem& p) {
  return "rows " + std::to_string(p.rows) + " start " + std::to_string(p.start) + " group " +
         std::to_string(p.group) + " head_dim " + std::to_string(p.head_dim) + " " +
         KvTypeName(p.type) + " window " + std::to_string(p.window) + " soft cap " +
         std::to_string(p.soft_cap) + " end " + std::to_string(p.end);
}

// Each table with each type.
class AttentionTest : public ::testing::TestWithParam<std::tuple<const char*, KvType>> {
 protected:
  void SetUp() override {
    const char* name = std::get<0>(GetParam());
    kernels_ = KernelsByName(name);
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "needs hardware: "
                   << (std::string(name) == "avx2" ? "AVX2, FMA, F16C" : "AVX-512 VNNI");
    }
    ASSERT_STREQ(kernels_->name, name);
    ASSERT_NE(kernels_->attention, reference_.attention);
    ASSERT_NE(kernels_->store_kv, reference_.store_kv);
  }

  void Check(Problem problem, Values values = Values::kNormal) {
    problem.type = type_;
    SCOPED_TRACE(Describe(problem));
    Rng rng(static_cast<uint32_t>(problem.start * 100 + problem.rows));
    Cache cache(problem, rng, values);
    const std::vector<float> q = Queries(problem, rng);
    const AttentionArgs args = cache.Args(problem, q);
    const std::vector<float> expected = Partials(reference_, problem, args);
    const std::vector<float> actual = Partials(*kernels_, problem, args);
    ASSERT_TRUE(AllSameBits(expected, actual));
    const std::vector<float> merged = Merge(*kernels_, problem, actual);
    ASSERT_TRUE(AllSameBits(Merge(reference_, problem, expected), merged));
    std::vector<float> sinks(static_cast<size_t>(problem.group));
    for (float& sink : sinks) sink = 4.0F * Normal(rng);
    ASSERT_TRUE(AllSameBits(Merge(reference_, problem, expected, sinks.data()),
                            Merge(*kernels_, problem, actual, sinks.data())));
    if (values != Values::kNormal) return;
    for (const float value : merged) ASSERT_TRUE(std::isfinite(value));
  }

  const KvType type_ = std::get<1>(GetParam());
  const Kernels& reference_ = kReferenceKernels;
  const Kernels* kernels_ = nullptr;
};

TEST_P(AttentionTest, EqualsReferenceForEveryTile) {
  for (int rows = 1; rows <= 20; ++rows) {
    for (int group = 1; group <= 8; ++group) Check({rows, 55, group, 64});
  }
}

TEST_P(AttentionTest, EqualsReferenceForManyRows) {
  for (const int rows : {31, 32, 33, 47, 63, 64}) Check({rows, 37, 3, 32});
}

TEST_P(AttentionTest, EqualsReferenceAtEveryEdge) {
  for (const int start :
       {0, 1, 15, 16, 47, 48, 63, 64, 65, 130, 1022, 1023, 1024, 1025, 1030, 2047, 2050}) {
    for (const int rows : {1, 2, 7}) Check({rows, start, 3, 64});
  }
}

TEST_P(AttentionTest, EqualsReferenceForEveryHeadSize) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (const int rows : {1, 6}) Check({rows, 90, 3, head_dim});
  }
}

// Windows that begin and end anywhere in a block, a group and a split, and such that see all.
TEST_P(AttentionTest, EqualsReferenceForEveryWindow) {
  for (const int window : {1, 16, 17, 63, 64, 65, 100, 1024, 5000}) {
    for (const int start : {0, 10, 63, 500, 1030, 2100}) {
      for (const int rows : {1, 16}) {
        Check({.rows = rows, .start = start, .group = 2, .head_dim = 16, .window = window});
      }
    }
  }
  for (int start = 180; start < 245; ++start) {
    Check({.rows = 9, .start = start, .group = 3, .head_dim = 16, .window = 70});
  }
}

TEST_P(AttentionTest, EqualsReferenceForTablesOfSeveralGroups) {
  for (const int step : {2, 3, 7}) {
    for (const int window : {0, 40}) {
      Check({.rows = 5,
             .start = 1020,
             .group = 2,
             .head_dim = 32,
             .window = window,
             .block_step = step});
    }
  }
}

TEST_P(AttentionTest, EqualsReferenceForCappedScores) {
  for (const float cap : {0.5F, 30.0F, 50.0F}) {
    for (const int window : {0, 33}) {
      for (const Values values : {Values::kNormal, Values::kExtreme, Values::kHostile}) {
        Check({.rows = 7,
               .start = 100,
               .group = 2,
               .head_dim = 32,
               .window = window,
               .soft_cap = cap},
              values);
      }
    }
  }
}

TEST_P(AttentionTest, EqualsReferenceForExtremeKeysAndValues) {
  for (const Values values : {Values::kExtreme, Values::kHostile}) {
    for (const int start : {3, 70, 1020}) {
      for (const int rows : {1, 9}) Check({rows, start, 3, 48}, values);
    }
  }
}

TEST_P(AttentionTest, EqualsReferenceForHostileQueries) {
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    const Problem problem = {5, 70, 3, 64, type_};
    Rng rng(3);
    Cache cache(problem, rng);
    std::vector<float> q = Queries(problem, rng);
    q[40] = bad;
    q[500] = 1e38F;
    q[900] = -1e-40F;
    const AttentionArgs args = cache.Args(problem, q);
    const std::vector<float> expected = Partials(reference_, problem, args);
    ASSERT_TRUE(AllSameBits(expected, Partials(*kernels_, problem, args)));
    ASSERT_TRUE(
        AllSameBits(Merge(reference_, problem, expected), Merge(*kernels_, problem, expected)));
  }
}

// A row of a chunk equals the same row alone, when later positions were never written.
TEST_P(AttentionTest, RowsAreAlone) {
  const Problem problem = {80, 1000, 3, 64, type_};
  Rng rng(4);
  Cache cache(problem, rng);
  const std::vector<float> q = Queries(problem, rng);
  const AttentionArgs args = cache.Args(problem, q);
  const std::vector<float> together = Merge(*kernels_, problem, Partials(*kernels_, problem, args));
  for (int r = 0; r < problem.rows; r += 3) {
    const Problem alone = {1, problem.start + r, problem.group, problem.head_dim, type_};
    cache.Fill(alone.start + 1);
    AttentionArgs one = args;
    one.q += r * args.q_stride;
    one.rows = 1;
    one.start = alone.start;
    const int width = problem.group * problem.head_dim;
    const auto row = together.begin() + r * width;
    ASSERT_TRUE(
        AllSameBits({row, row + width}, Merge(*kernels_, alone, Partials(*kernels_, alone, one))))
        << "row " << r;
  }
}

// Rows that see what is behind them: each gives the bits that the last position gives with its
// query.
TEST_P(AttentionTest, RowsThatSeeTheSameEnd) {
  for (const int end : {16, 17, 40, 64, 130, 1024, 1060}) {
    for (const int rows : {1, 5, 16}) {
      const Problem problem = {
          .rows = rows, .start = end / 3, .group = 3, .head_dim = 32, .end = end};
      Check(problem);
      Problem last = problem;
      last.type = type_;
      Rng rng(6);
      const Cache cache(last, rng);
      const std::vector<float> q = Queries(last, rng);
      AttentionArgs args = cache.Args(last, q);
      const std::vector<float> together = Merge(*kernels_, last, Partials(*kernels_, last, args));
      last.rows = args.rows = 1;
      last.start = args.start = end - 1;
      args.end = 0;
      for (int r = 0; r < rows; ++r, args.q += args.q_stride) {
        const auto row = together.begin() + r * 3 * 32;
        ASSERT_TRUE(AllSameBits({row, row + 3 * 32},
                                Merge(*kernels_, last, Partials(*kernels_, last, args))))
            << "row " << r << " end " << end;
      }
    }
  }
}

// Nor does the window of the rows beside it change a row: neither the split in which it begins, nor
// what is left of blocks that the row does not see.
TEST_P(AttentionTest, RowsWithWindowsAreAlone) {
  const Problem problem = {
      .rows = 80, .start = 1060, .group = 3, .head_dim = 32, .type = type_, .window = 77};
  Rng rng(5);
  Cache cache(problem, rng);
  const std::vector<float> q = Queries(problem, rng);
  const AttentionArgs args = cache.Args(problem, q);
  const std::vector<float> sinks = {0.5F, -3.0F, 6.0F};
  const std::vector<float> together =
      Merge(*kernels_, problem, Partials(*kernels_, problem, args), sinks.data());
  for (int r = 0; r < problem.rows; ++r) {
    Problem alone = problem;
    alone.rows = 1;
    alone.start = problem.start + r;
    AttentionArgs one = args;
    one.q += r * args.q_stride;
    one.rows = 1;
    one.start = alone.start;
    // As if all before the window were one split's, which a caller may leave out.
    const int skipped = alone.first(0) / kSplitTokens;
    std::vector<float> partials = Partials(*kernels_, alone, one);
    const int width = problem.group * problem.head_dim;
    const auto row = together.begin() + r * width;
    const std::vector<float> expected(row, row + width);
    ASSERT_TRUE(AllSameBits(expected, Merge(*kernels_, alone, partials, sinks.data()))) << r;
    partials.erase(partials.begin(),
                   partials.begin() + skipped * problem.group * PartialFloats(problem.head_dim));
    std::vector<float> out(static_cast<size_t>(width));
    for (int h = 0; h < problem.group; ++h) {
      const int entry = PartialFloats(problem.head_dim);
      kernels_->attention_merge(partials.data() + h * entry, Splits(alone) - skipped,
                                int64_t{problem.group} * entry, problem.head_dim,
                                &sinks[static_cast<size_t>(h)], out.data() + h * problem.head_dim);
    }
    ASSERT_TRUE(AllSameBits(expected, out)) << r;
  }
}

TEST_P(AttentionTest, StoresTheSameBytes) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (const Values values : {Values::kNormal, Values::kExtreme, Values::kHostile}) {
      Rng rng(static_cast<uint32_t>(head_dim));
      const size_t bytes = KvHeadBlockBytes(type_, head_dim);
      std::vector<std::byte> expected(bytes, std::byte{0x33});
      std::vector<std::byte> actual = expected;
      for (const int slot : {0, 7, 15}) {
        std::vector<float> k;
        std::vector<float> v;
        for (int i = 0; i < head_dim; ++i) {
          k.push_back(Activation(values, rng));
          v.push_back(Activation(values, rng) * (slot == 7 ? 1e-30F : 1.0F));
        }
        reference_.store_kv(type_, k.data(), v.data(), head_dim, slot, expected.data());
        kernels_->store_kv(type_, k.data(), v.data(), head_dim, slot, actual.data());
      }
      EXPECT_EQ(expected, actual) << head_dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, AttentionTest,
                         ::testing::Combine(::testing::Values("avx2", "avx512vnni"),
                                            ::testing::Values(KvType::kF16, KvType::kQ8_0)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  KvTypeName(std::get<1>(info.param));
                         });

TEST(KvType, NamesAndBytes) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    ASSERT_NE(KvTypeByName(KvTypeName(type)), nullptr);
    EXPECT_EQ(*KvTypeByName(KvTypeName(type)), type);
  }
  EXPECT_EQ(KvTypeByName("f32"), nullptr);
  EXPECT_EQ(KvHeadBlockBytes(KvType::kF16, 64), 4096U);
  EXPECT_EQ(KvHeadBlockBytes(KvType::kQ8_0, 64), 2048U + 128U);
  EXPECT_EQ(KvHeadBlockBytes(KvType::kQ8_0, 16) % 64, 0U);
}

// What 8 bits keep of a row, and that a bad row is NaN as a whole instead of undefined.
TEST(KvType, Q8KeepsRowsWithinHalfAStep) {
  constexpr int kDim = 64;
  const auto scale_at = [](const std::vector<std::byte>& block, int index) {
    float scale = 0;
    std::memcpy(&scale, &block[static_cast<size_t>(2 * base::kBlockTokens * kDim + 4 * index)], 4);
    return scale;
  };
  Rng rng(11);
  std::vector<float> k;
  std::vector<float> v;
  for (int i = 0; i < kDim; ++i) {
    k.push_back(Normal(rng));
    v.push_back(0.0F);
  }
  k[5] = -9.0F;
  std::vector<std::byte> block(KvHeadBlockBytes(KvType::kQ8_0, kDim));
  kReferenceKernels.store_kv(KvType::kQ8_0, k.data(), v.data(), kDim, 3, block.data());
  EXPECT_FLOAT_EQ(scale_at(block, 3), 9.0F / 127.0F);
  EXPECT_EQ(scale_at(block, base::kBlockTokens + 3), 0.0F);
  for (int d = 0; d < kDim; ++d) {
    const auto q = static_cast<int8_t>(block[static_cast<size_t>(d * base::kBlockTokens + 3)]);
    EXPECT_NEAR(static_cast<float>(q) * scale_at(block, 3), k[static_cast<size_t>(d)],
                0.501F * scale_at(block, 3));
  }
  k[9] = HUGE_VALF;
  kReferenceKernels.store_kv(KvType::kQ8_0, k.data(), v.data(), kDim, 3, block.data());
  EXPECT_TRUE(std::isnan(scale_at(block, 3)));
}

class ReferenceAttention : public ::testing::TestWithParam<KvType> {};

TEST_P(ReferenceAttention, IsCloseToDoublePrecision) {
  const Problem problem = {3, 1100, 2, 64, GetParam()};
  Rng rng(10);
  Cache cache(problem, rng);
  const std::vector<float> q = Queries(problem, rng);
  const AttentionArgs args = cache.Args(problem, q);
  const std::vector<float> out =
      Merge(kReferenceKernels, problem, Partials(kReferenceKernels, problem, args));
  for (int r = 0; r < problem.rows; ++r) {
    for (int h = 0; h < problem.group; ++h) {
      const float* query = q.data() + r * args.q_stride + h * problem.head_dim;
      std::vector<double> o(static_cast<size_t>(problem.head_dim), 0.0);
      double l = 0;
      for (int t = 0; t <= problem.start + r; ++t) {
        double score = 0;
        for (int d = 0; d < problem.head_dim; ++d) score += double{query[d]} * cache.k(t, d);
        const double p = std::exp(score * args.scale);
        l += p;
        for (int d = 0; d < problem.head_dim; ++d) o[static_cast<size_t>(d)] += p * cache.v(t, d);
      }
      for (int d = 0; d < problem.head_dim; ++d) {
        const size_t at = static_cast<size_t>((r * problem.group + h) * problem.head_dim + d);
        EXPECT_NEAR(out[at], o[static_cast<size_t>(d)] / l, 2e-5) << r << ' ' << h << ' ' << d;
      }
    }
  }
}

// A window, a cap and a sink at once.
TEST_P(ReferenceAttention, VariantsAreCloseToDoublePrecision) {
  const Problem problem = {.rows = 3,
                           .start = 1100,
                           .group = 2,
                           .head_dim = 64,
                           .type = GetParam(),
                           .window = 90,
                           .soft_cap = 2.5F};
  Rng rng(12);
  Cache cache(problem, rng);
  const std::vector<float> q = Queries(problem, rng);
  const AttentionArgs args = cache.Args(problem, q);
  const std::vector<float> sinks = {1.5F, -2.0F};
  const std::vector<float> out =
      Merge(kReferenceKernels, problem, Partials(kReferenceKernels, problem, args), sinks.data());
  for (int r = 0; r < problem.rows; ++r) {
    for (int h = 0; h < problem.group; ++h) {
      const float* query = q.data() + r * args.q_stride + h * problem.head_dim;
      std::vector<double> o(static_cast<size_t>(problem.head_dim), 0.0);
      double l = std::exp(double{sinks[static_cast<size_t>(h)]});
      for (int t = problem.first(r); t <= problem.start + r; ++t) {
        double score = 0;
        for (int d = 0; d < problem.head_dim; ++d) score += double{query[d]} * cache.k(t, d);
        const double cap = problem.soft_cap;
        const double p = std::exp(cap * std::tanh(score * args.scale / cap));
        l += p;
        for (int d = 0; d < problem.head_dim; ++d) o[static_cast<size_t>(d)] += p * cache.v(t, d);
      }
      for (int d = 0; d < problem.head_dim; ++d) {
        const size_t at = static_cast<size_t>((r * problem.group + h) * problem.head_dim + d);
        EXPECT_NEAR(out[at], o[static_cast<size_t>(d)] / l, 2e-5) << r << ' ' << h << ' ' << d;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReferenceAttention, ::testing::Values(KvType::kF16, KvType::kQ8_0),
                         [](const auto& info) { return std::string(KvTypeName(info.param)); });

}  // namespace
}  // namespace ropeway::kernels::testing
