// The KV cache and attention against the reference table, by bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/kv_block.h"
#include "gpu/test_ops.h"
#include "kernels/kernels.h"

namespace ropeway::gpu {
namespace {

using kernels::kReferenceKernels;
using kernels::kSplitTokens;
using kernels::KvType;
using kernels::PartialFloats;
using testing::AllSameBits;
using testing::Download;
using testing::Numbers;
using testing::Rng;
using testing::TestRows;
using testing::Upload;

constexpr int kTableStep = 2;   // Two groups of layers share the tables; these layers are of ...
constexpr int kTableFirst = 1;  // ... the second one.
constexpr size_t kPoolBegin = 128;

struct Model {
  KvType type;
  int head_dim;
  int heads;
  int kv_heads;
};

std::string NameOf(const Model& m) {
  return std::string(kernels::KvTypeName(m.type)) + ", head_dim " + std::to_string(m.head_dim) +
         ", heads " + std::to_string(m.heads) + " of " + std::to_string(m.kv_heads);
}

// A pool of blocks, here and on the device, and the tables of sequences that have shuffled ones.
class Cache {
 public:
  // `lengths`: of the sequences, in positions.
  Cache(Gpu* gpu, Rng& rng, const Model& model, const std::vector<int>& lengths)
      : gpu_(gpu),
        model_(model),
        head_bytes_(kernels::KvHeadBlockBytes(model.type, model.head_dim)),
        block_bytes_(head_bytes_ * static_cast<size_t>(model.kv_heads) + 192) {
    int32_t blocks = 1;  // Block 0 is of no sequence.
    for (const int length : lengths) {
      begins_.push_back(static_cast<int32_t>(table_.size()));
      const int count = (length + base::kBlockTokens - 1) / base::kBlockTokens;
      for (int b = 0; b < count; ++b) {
        table_.push_back(0);
        table_.push_back(blocks++);
      }
    }
    std::vector<int32_t> order(static_cast<size_t>(blocks));
    for (int32_t b = 0; b < blocks; ++b) order[static_cast<size_t>(b)] = b;
    std::shuffle(order.begin() + 1, order.end(), rng);
    for (int32_t& block : table_) block = order[static_cast<size_t>(block)];
    // All bits are set: a NaN of either type, also as a scale.
    pool_.assign(kPoolBegin + block_bytes_ * static_cast<size_t>(blocks) + 64, std::byte{0xFF});
  }

  // The block of a position, of the KV head.
  std::byte* Block(int sequence, int position, int head) {
    const auto entry =
        static_cast<size_t>(begins_[static_cast<size_t>(sequence)] +
                            position / base::kBlockTokens * kTableStep + kTableFirst);
    return Head(head) + static_cast<size_t>(table_[entry]) * block_bytes_;
  }
  void Store(int sequence, int position, int head, const float* k, const float* v) {
    kReferenceKernels.store_kv(model_.type, k, v, model_.head_dim, position % base::kBlockTokens,
                               Block(sequence, position, head));
  }
  // What the reference needs of this cache.
  void Fill(int sequence, int head, kernels::AttentionArgs* args) {
    args->head_dim = model_.head_dim;
    args->kv_type = model_.type;
    args->kv = Head(head);
    args->block_stride = block_bytes_;
    args->blocks = table_.data() + begins_[static_cast<size_t>(sequence)] + kTableFirst;
    args->block_step = kTableStep;
  }

  // Row r is of sequence sequences[r].
  KvView Send(const std::vector<int>& sequences) {
    std::vector<int32_t> rows;
    for (const int s : sequences) rows.push_back(begins_[static_cast<size_t>(s)]);
    rows.push_back(0);
    device_pool_ = Upload(gpu_, pool_);
    device_table_ = Upload(gpu_, table_);
    device_rows_ = Upload(gpu_, rows);
    KvView view;
    view.type = model_.type;
    view.head_dim = model_.head_dim;
    view.kv_heads = model_.kv_heads;
    view.pool = {device_pool_.get(), kPoolBegin};
    view.block_bytes = block_bytes_;
    view.tables = {device_table_.get(), 0};
    view.row_tables = {device_rows_.get(), 0};
    view.table_step = kTableStep;
    view.table_first = kTableFirst;
    return view;
  }

  bool Match() { return pool_ == Download<std::byte>(gpu_, {device_pool_.get(), 0}, pool_.size()); }

 private:
  std::byte* Head(int head) {
    return pool_.data() + kPoolBegin + static_cast<size_t>(head) * head_bytes_;
  }

  Gpu* const gpu_;
  const Model model_;
  const size_t head_bytes_;
  const size_t block_bytes_;
  std::vector<int32_t> table_;
  std::vector<int32_t> begins_;  // Of each sequence in it.
  std::vector<std::byte> pool_;
  std::unique_ptr<Buffer> device_pool_, device_table_, device_rows_;
};

class AttentionTest : public testing::OpsTest {
 protected:
  Rng rng_{11};
};

TEST_F(AttentionTest, StoreKv) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    for (const int head_dim : {16, 64, 80, 128, 256}) {
      for (const int rows : {0, 1, 3, 17, 64}) {
        const Model model = {type, head_dim, 3, 3};
        Cache cache(gpu_.get(), rng_, model, {100, 40, 7});
        const int width = head_dim * model.kv_heads;
        TestRows k(gpu_.get(), rng_, rows, width + 9, 3);
        TestRows v(gpu_.get(), rng_, rows, width + 5, 3);
        std::vector<int> sequences;
        std::vector<int32_t> slots;
        for (int r = 0; r < rows; ++r) {
          sequences.push_back(r < 33 ? 0 : r < 60 ? 1 : 2);
          slots.push_back(r % 7 == 3 ? -1 : r < 33 ? 3 * r : r < 60 ? r - 30 : r - 60);
        }
        slots.push_back(0);
        const auto device_slots = Upload(gpu_.get(), slots);
        ops_->StoreKv(cache.Send(sequences), k.rows(), v.rows(), {device_slots.get(), 0}, rows);
        for (int r = 0; r < rows; ++r) {
          if (slots[static_cast<size_t>(r)] < 0) continue;
          for (int h = 0; h < model.kv_heads; ++h) {
            cache.Store(sequences[static_cast<size_t>(r)], slots[static_cast<size_t>(r)], h,
                        k.row(r) + h * head_dim, v.row(r) + h * head_dim);
          }
        }
        EXPECT_TRUE(cache.Match()) << NameOf(model) << ", rows " << rows;
      }
    }
  }
}

// Rows that each see the positions before `ends` of a sequence.
struct Problem {
  Model model;
  int window = 0;
  float soft_cap = 0.0F;
  bool sinks = false;
  std::vector<int> lengths;    // Of the sequences.
  std::vector<int> sequences;  // Of each row.
  std::vector<int32_t> ends;
  int odd = 0;       // Of numbers in K, V and the queries, as for Number.
  size_t lacks = 0;  // Floats that the room for partials is too small by.

  void Add(int sequence, int32_t end) {
    sequences.push_back(sequence);
    ends.push_back(end);
  }
};

class AttendTest : public AttentionTest {
 protected:
  // In one pass over each context, and by splits.
  void Check(const Problem& p) {
    const Model& model = p.model;
    const int head_dim = model.head_dim;
    const int group = model.heads / model.kv_heads;
    const int rows = static_cast<int>(p.ends.size());
    Cache cache(gpu_.get(), rng_, model, p.lengths);
    // Positions that a row of the sequence sees; the others stay NaN.
    for (size_t s = 0; s < p.lengths.size(); ++s) {
      std::vector<bool> seen(static_cast<size_t>(p.lengths[s]));
      for (size_t r = 0; r < p.ends.size(); ++r) {
        if (static_cast<size_t>(p.sequences[r]) != s) continue;
        const int first = p.window > 0 ? std::max(p.ends[r] - p.window, 0) : 0;
        for (int t = first; t < p.ends[r]; ++t) seen[static_cast<size_t>(t)] = true;
      }
      for (int t = 0; t < p.lengths[s]; ++t) {
        if (!seen[static_cast<size_t>(t)]) continue;
        for (int h = 0; h < model.kv_heads; ++h) {
          const std::vector<float> k = Numbers(rng_, static_cast<size_t>(head_dim), p.odd);
          const std::vector<float> v = Numbers(rng_, static_cast<size_t>(head_dim), p.odd);
          cache.Store(static_cast<int>(s), t, h, k.data(), v.data());
        }
      }
    }
    TestRows q(gpu_.get(), rng_, rows, model.heads * head_dim + 3, p.odd);
    TestRows out(gpu_.get(), rng_, rows, model.heads * head_dim + 6);
    const TestRows out_of_splits = out.Copy();
    TestRows sinks(gpu_.get(), rng_, 1, model.heads);
    std::vector<int32_t> ends = p.ends;
    ends.push_back(0);
    const auto device_ends = Upload(gpu_.get(), ends);

    AttentionCall call;
    call.q = q.rows();
    call.out = out.rows();
    call.rows = rows;
    call.heads = model.heads;
    call.scale = 0.17F;
    call.soft_cap = p.soft_cap;
    call.window = p.window;
    call.ends = {device_ends.get(), 0};
    if (p.sinks) call.sinks = sinks.view();
    const KvView kv = cache.Send(p.sequences);
    ops_->Attend(kv, call);
    call.out = out_of_splits.rows();
    call.splits = MostSplits(p.ends, p.window);
    CheckUsedPartials(kv, call, p.lacks);

    for (int r = 0; r < rows; ++r) {
      const int end = p.ends[static_cast<size_t>(r)];
      const int splits = std::max(1, (end + kSplitTokens - 1) / kSplitTokens);
      const int64_t floats = int64_t{group} * PartialFloats(head_dim);
      std::vector<float> partials(static_cast<size_t>(floats * splits));
      for (int kv_head = 0; kv_head < model.kv_heads; ++kv_head) {
        kernels::AttentionArgs args;
        cache.Fill(p.sequences[static_cast<size_t>(r)], kv_head, &args);
        args.q = q.row(r) + kv_head * group * head_dim;
        args.scale = call.scale;
        args.soft_cap = p.soft_cap;
        args.rows = 1;
        args.start = end - 1;
        args.window = p.window;
        args.group = group;
        for (int s = 0; s < splits; ++s) {
          kReferenceKernels.attention(args, s, partials.data() + s * floats);
        }
        for (int g = 0; g < group; ++g) {
          const int head = kv_head * group + g;
          kReferenceKernels.attention_merge(
              partials.data() + g * PartialFloats(head_dim), splits, floats, head_dim,
              p.sinks ? sinks.row(0) + head : nullptr, out.row(r) + head * head_dim);
        }
      }
    }
    const std::string what = NameOf(model) + ", window " + std::to_string(p.window) +
                             ", soft cap " + std::to_string(p.soft_cap) + ", sinks " +
                             std::to_string(p.sinks) + ", odd " + std::to_string(p.odd) +
                             ", rows " + std::to_string(rows);
    EXPECT_TRUE(out.Match()) << what;
    EXPECT_TRUE(out_of_splits.Match(out)) << what << ", by splits";
  }

  // Attends with room for partials; it is used where there are few rows and several splits.
  void CheckUsedPartials(const KvView& kv, AttentionCall call, size_t lacks) {
    constexpr size_t kBefore = 3;
    const size_t used = static_cast<size_t>(call.rows * call.heads * call.splits) *
                        static_cast<size_t>(PartialFloats(kv.head_dim));
    const std::vector<uint32_t> nan(kBefore + used - lacks + (lacks > 0 ? 0 : 9), 0xFFFFFFFFU);
    const auto room = Upload(gpu_.get(), nan);
    call.partials = {room.get(), kBefore * sizeof(float)};
    ops_->Attend(kv, call);
    std::vector<uint32_t> after = Download<uint32_t>(gpu_.get(), {room.get(), 0}, nan.size());
    const auto partials = after.begin() + kBefore;
    const auto end = partials + static_cast<ptrdiff_t>(used - lacks);
    EXPECT_EQ(std::any_of(partials, end, [](uint32_t bits) { return bits != 0xFFFFFFFFU; }),
              call.splits > 1 && call.rows * kv.kv_heads < 1024 && lacks == 0);
    std::fill(partials, end, 0xFFFFFFFFU);
    EXPECT_EQ(after, nan);
  }

  // Rows of one sequence, at the edges of blocks, groups and splits.
  static Problem Edges(const Model& model) {
    Problem p;
    p.model = model;
    p.ends = {1, 15, 16, 63, 64, 65, 1023, 1024, 1025, 2500};
    p.lengths = {2500};
    p.sequences.assign(p.ends.size(), 0);
    return p;
  }
};

TEST_F(AttendTest, WholeContexts) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    Check(Edges({type, 64, 2, 2}));
    Check(Edges({type, 128, 4, 2}));
    Check(Edges({type, 256, 4, 1}));
    Check(Edges({type, 16, 4, 4}));
    Check(Edges({type, 80, 2, 1}));
  }
}

TEST_F(AttendTest, WindowsSoftCapsAndSinks) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    for (const int window : {1, 16, 63, 64, 100, 1024, 1500}) {
      Problem p = Edges({type, 64, 2, 1});
      p.window = window;
      p.soft_cap = window % 2 == 0 ? 3.0F : 0.0F;
      p.sinks = window % 3 == 0;
      Check(p);
    }
    Problem p = Edges({type, 16, 2, 1});
    p.soft_cap = 50.0F;
    Check(p);
    p.sinks = true;
    Check(p);
    p.soft_cap = 0.0F;
    Check(p);
  }
}

// Rows see positions behind their own, and rows of several sequences come in any order.
TEST_F(AttendTest, ManySequences) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    for (const int rows : {0, 1, 3, 17, 64}) {
      Problem p;
      p.model = {type, 64, 3, 1};
      p.lengths = {300, 1100, 17};
      p.sinks = rows == 17;
      for (int r = 0; r < rows; ++r) {
        const int sequence = static_cast<int>(rng_() % 3);
        p.sequences.push_back(sequence);
        p.ends.push_back(
            1 + static_cast<int32_t>(
                    rng_() % static_cast<uint32_t>(p.lengths[static_cast<size_t>(sequence)])));
      }
      Check(p);
      p.window = 70;
      Check(p);
    }
  }
}

// So many rows that heads share what is read; chunks of rows of one sequence, and single ones amid
// them.
TEST_F(AttendTest, ManyRows) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    for (const int heads_of_kv : {1, 2, 3, 4, 5, 8}) {
      Problem p;
      p.model = {type, heads_of_kv == 4 ? 64 : 16, 2 * heads_of_kv, 2};
      p.lengths = {1200, 90, 300};
      p.sinks = true;
      while (p.ends.size() < 70) {
        const int sequence = static_cast<int>(rng_() % 3);
        const int length = p.lengths[static_cast<size_t>(sequence)];
        const int first = 1 + static_cast<int>(rng_() % static_cast<uint32_t>(length));
        const int rows = 1 + static_cast<int>(rng_() % 2 * (rng_() % 20));
        for (int end = first; end < std::min(first + rows, length + 1); ++end) {
          p.sequences.push_back(sequence);
          p.ends.push_back(end);
        }
      }
      Check(p);
      p.window = 33;
      Check(p);
    }
  }
}

// Contexts of several splits, amid short ones.
TEST_F(AttendTest, LongContexts) {
  for (const Model& model : {Model{KvType::kF16, 16, 2, 2}, Model{KvType::kQ8_0, 16, 2, 1},
                             Model{KvType::kQ8_0, 80, 1, 1}, Model{KvType::kF16, 256, 1, 1}}) {
    const bool small = model.head_dim == 16;
    Problem p;
    p.model = model;
    p.lengths = {5000, 3100, 1};
    p.Add(0, 5000);
    if (small) Check(p);
    p.sinks = model.head_dim != 80;
    p.soft_cap = model.head_dim == 80 ? 3.0F : 0.0F;
    // Four that share a group, and the edge of a split in it; then single ones.
    for (const int end : {1023, 1024, 1025}) p.Add(0, end);
    for (const int end : {3071, 3072, 3073, 3074}) p.Add(1, end);
    p.Add(2, 1);
    p.Add(1, 3000);
    Check(p);
    // These begin in a later split, some of them at its edge.
    for (const int window : {1, 1024, 2000}) {
      p.window = window;
      if (small) Check(p);
    }
  }
}

// A long context among so many rows that heads share what is read, and among still more.
TEST_F(AttendTest, ALongContextAmongManyRows) {
  for (const Model& model : {Model{KvType::kQ8_0, 16, 6, 2}, Model{KvType::kF16, 16, 16, 16}}) {
    Problem p;
    p.model = model;
    p.lengths = {2100, 90};
    for (int r = 0; r < 64; ++r) p.Add(r % 7 == 0 ? 0 : 1, r % 7 == 0 ? 2000 + r : 1 + r);
    Check(p);
  }
}

TEST_F(AttendTest, TooLittleRoomForPartialsIsLeftAlone) {
  Problem p = Edges({KvType::kF16, 16, 2, 1});
  p.lacks = 1;
  Check(p);
}

TEST(MostSplits, AreThoseThatARowSees) {
  const std::vector<int32_t> ends = {0, 1, 1024, 3072, 2049};
  EXPECT_EQ(MostSplits({}, 0), 1);
  EXPECT_EQ(MostSplits(std::vector<int32_t>{0, 1, 1024}, 0), 1);
  EXPECT_EQ(MostSplits(std::vector<int32_t>{1025, 7}, 0), 2);
  EXPECT_EQ(MostSplits(ends, 0), 3);
  EXPECT_EQ(MostSplits(ends, 1), 1);
  EXPECT_EQ(MostSplits(ends, 2), 2);  // 2047 and 2048.
  EXPECT_EQ(MostSplits(ends, 1025), 2);
  EXPECT_EQ(MostSplits(ends, 1026), 3);  // From 1023 to 2048.
}

TEST(PartialBytes, SufficeOrAreBounded) {
  EXPECT_EQ(PartialBytes(64, 8, 4, 512, 1024), 0U);
  // Two splits. Of more rows there are groups enough.
  EXPECT_EQ(PartialBytes(64, 8, 4, 5, 1025), 5U * 8 * 2 * (64 + 16) * 4);
  EXPECT_EQ(PartialBytes(64, 8, 4, 512, 1025), 255U * 8 * 2 * (64 + 16) * 4);
  EXPECT_EQ(PartialBytes(128, 32, 8, 512, 1 << 20), size_t{64} << 20);
}

// Infinities and NaN that rows do see; and a row that sees nothing.
TEST_F(AttendTest, OddNumbers) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    for (const bool sinks : {false, true}) {
      for (const int odd : {1, 30, 1000}) {
        Problem p = Edges({type, 16, 2, 1});
        p.ends.insert(p.ends.end(), {0, 2, 3, 1100});
        p.sequences.resize(p.ends.size(), 0);
        p.sinks = sinks;
        p.odd = odd;
        Check(p);
        p.soft_cap = 20.0F;
        p.window = 40;
        Check(p);
      }
    }
  }
}

}  // namespace
}  // namespace ropeway::gpu
