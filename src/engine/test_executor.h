// An executor without a model: the double of tests, of the simulation and of replays.
#ifndef ROPEWAY_ENGINE_TEST_EXECUTOR_H_
#define ROPEWAY_ENGINE_TEST_EXECUTOR_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/test_constraint.h"
#include "executor/executor.h"

namespace ropeway::engine {

// Its tokens depend on what a real one's depend on: the ids of the whole context, READ BACK through
// the sequence's block table. So a block that is shared by mistake, given away too early or not
// recomputed changes the text. The public functions, where they are set, add time and faults.
class TestExecutor : public executor::Executor {
 public:
  // kBlocks: as above. kNone: a block has one byte without meaning, and tokens from kFirstGenerated
  // on depend on the sequence and the position alone, which is fast; prompts have lower ids.
  enum class Kv { kBlocks, kNone };

  explicit TestExecutor(Kv kv = Kv::kBlocks) : kv_(kv) {}

  static constexpr int kVocabSize = 1000;
  static constexpr TokenId kFirstGenerated = 1 << 20;

  // The "K/V" of one position in one group of layers.
  struct Slot {
    TokenId token = -1;
    int32_t place = -1;  // See PlaceOf.
    int32_t scope = 0;
  };
  static constexpr size_t kBytesPerToken = sizeof(Slot);

  // What the hash of a context begins with, which `seed` is for.
  static uint64_t SeedOf(uint64_t seed, bool long_rope) {
    return long_rope ? base::Mix64(seed, kLongRope) : seed;
  }

  // The log-prob of `token` after `context`: what a scored id must get, whatever the chunks.
  static float ScoreOf(std::span<const TokenId> context, TokenId token, bool long_rope = false) {
    uint64_t hash = SeedOf(kScoreSeed, long_rope);
    for (const TokenId id : context) hash = base::Mix64(hash, static_cast<uint64_t>(id) + 1);
    return LogprobOf(base::Mix64(hash, static_cast<uint64_t>(token) + 1));
  }

  // What the positions [begin, end) of these ids add to an embedding, whatever the chunks.
  static std::vector<float> PoolOf(std::span<const TokenId> ids, int32_t begin, int32_t end) {
    std::vector<float> sum(2);
    uint64_t hash = kPoolSeed;
    for (int32_t i = 0; i < end; ++i) {
      hash = base::Mix64(hash, static_cast<uint64_t>(ids[static_cast<size_t>(i)]) + 1);
      if (i >= begin) AddPooled(hash, &sum);
    }
    return sum;
  }

  StatusOr<executor::KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                    int max_num_seqs) override {
    const size_t block_bytes = kv_ == Kv::kNone ? 1 : base::kBlockTokens * kBytesPerToken;
    const auto blocks = static_cast<int32_t>(static_cast<size_t>(kv_cache_bytes) / block_bytes);
    max_tokens_ = max_num_batched_tokens;
    max_seqs_ = max_num_seqs;
    late_reads_.clear();
    if (kv_ == Kv::kBlocks) slots_.assign(static_cast<size_t>(blocks) * base::kBlockTokens, Slot{});
    return executor::KvLayout{blocks, block_bytes, windows, device};
  }

  // Bytes of a pool of `blocks` blocks.
  static int64_t PoolBytes(int32_t blocks) {
    return int64_t{blocks} * base::kBlockTokens * static_cast<int64_t>(kBytesPerToken);
  }

  void Launch(const core::Batch& batch) override {
    batch_ = &batch;
    if (!change_batch) return;
    changed_ = batch;
    change_batch(&changed_);
    batch_ = &changed_;
  }

  StatusOr<core::StepResult> Wait() override {
    if (before_step) {
      if (Status status = before_step(*batch_); !status.ok()) return status;
    }
    EndLateReads();
    ++steps_;
    rows_ += batch_->num_tokens();
    core::StepResult result = kv_ == Kv::kNone ? ComputeWithoutKv() : Compute();
    if (after_step) after_step(*batch_, &result);
    return result;
  }

  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override {
    if (kv_ == Kv::kNone) return;
    std::memcpy(bytes.data(), &slots_[static_cast<size_t>(block) * base::kBlockTokens],
                bytes.size());
    if (!reads_late || !reads_late()) return;
    late_reads_.push_back({bytes, {bytes.begin(), bytes.end()}});
    std::fill(bytes.begin(), bytes.end(), kPoison);
  }
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override {
    if (kv_ == Kv::kNone) return;
    std::memcpy(&slots_[static_cast<size_t>(block) * base::kBlockTokens], bytes.data(),
                bytes.size());
  }

  Status FinishReads() override {
    EndLateReads();
    return {};
  }

  // Whether a read that begins now brings its bytes only when Wait or FinishReads returns OK, and
  // kPoison until then. Empty: none does.
  std::function<bool()> reads_late;
  static constexpr std::byte kPoison{0xEE};

  // The windows of the groups of layers (KvLayout), set before Init. The tokens depend on what the
  // first one sees; scored ids need one without a window.
  std::vector<int32_t> windows = {0};

  // What Init says of the device.
  core::DeviceProfile device;

  // Changes what is computed.
  std::function<void(core::Batch* batch)> change_batch;
  // Called by Wait before the step is computed; an error is the step's result.
  std::function<Status(const core::Batch& batch)> before_step;
  // Called with the result before Wait returns it.
  std::function<void(const core::Batch& batch, core::StepResult* result)> after_step;

  // Numbers the groups of sequences that may share blocks. Empty: all may.
  std::function<int32_t(uint64_t sequence)> scope_of;

  int64_t steps() const { return steps_; }  // Computed.
  int64_t rows() const { return rows_; }    // Tokens of these.

  // The first read of a block that another scope wrote; empty: none.
  const std::string& foreign_read() const { return foreign_read_; }

  // The first thing a batch asked that no executor can do, or a slot whose place differs from
  // the place of the context read through it; empty: none.
  const std::string& violation() const { return violation_; }

 private:
  static constexpr uint64_t kScoreSeed = 0x5C02E;
  static constexpr uint64_t kLongRope = 0x10476;
  static constexpr uint64_t kPoolSeed = 0x9001;

  static void AddPooled(uint64_t hash, std::vector<float>* sum) {
    (*sum)[0] += LogprobOf(hash);
    (*sum)[1] += 1.0F;
  }

  void EndLateReads() {
    for (const LateRead& read : late_reads_) {
      std::copy(read.bytes.begin(), read.bytes.end(), read.to.begin());
    }
    late_reads_.clear();
  }

  core::StepResult ComputeWithoutKv() const {
    core::StepResult result;
    for (const core::BatchItem& item : batch_->items) {
      if (!item.sample) continue;
      core::Sampled& sampled = result.sampled.emplace_back();
      sampled.sequence = item.sequence;
      const uint64_t position = static_cast<uint64_t>(item.start) + item.tokens.size();
      sampled.token = kFirstGenerated +
                      static_cast<TokenId>(base::Mix64(item.sequence, position) % kFirstGenerated);
    }
    return result;
  }

  core::StepResult Compute() {
    CheckBatch(*batch_);
    // All writes before all reads, as in a forward pass: else an item could read what a later one
    // of the same step overwrites.
    for (const core::BatchItem& item : batch_->items) {
      if (item.padding) continue;
      for (size_t i = 0; i < item.tokens.size(); ++i) {
        const auto position = item.start + static_cast<int32_t>(i);
        for (int32_t group = 0; group < groups(); ++group) {
          if (Slot* slot = Find(item, position, group))
            *slot = {item.tokens[i], PlaceOf(item, position, group), ScopeOf(item.sequence)};
        }
      }
    }
    core::StepResult result;
    for (const core::BatchItem& item : batch_->items) {
      const auto length = item.start + static_cast<int32_t>(item.tokens.size());
      if (item.padding) {
        if (item.sample) result.sampled.push_back({});
        continue;
      }
      Score(item, &result.scored);
      Pool(item, &result.pooled);
      const uint64_t hash = ContextHash(item, length);
      if (!item.sample) continue;
      core::Sampled sampled;
      sampled.sequence = item.sequence;
      sampled.token = static_cast<TokenId>(hash % kVocabSize);
      ApplyTestMask(item, kVocabSize, &sampled);
      if (item.spec->num_logprobs >= 0) {
        sampled.logprob = LogprobOf(hash);
      }
      result.sampled.push_back(std::move(sampled));
    }
    return result;
  }

  static float LogprobOf(uint64_t hash) { return -static_cast<float>(hash >> 40) * 0x1p-24F; }

  int32_t groups() const { return static_cast<int32_t>(windows.size()); }

  static int32_t PlaceOf(const core::BatchItem& item, int32_t position, int32_t group) {
    return position + (group << 24) + (item.long_rope ? 1 << 30 : 0);
  }

  // The first position that the row at `position` sees.
  int32_t FirstSeen(int32_t group, int32_t position) const {
    const int32_t window = windows[static_cast<size_t>(group)];
    return window == 0 ? 0 : std::max(0, position + 1 - window);
  }

  int32_t ScopeOf(uint64_t sequence) const { return scope_of ? scope_of(sequence) : 0; }

  void Violate(const core::BatchItem& item, const std::string& what) {
    if (violation_.empty()) {
      violation_ = "sequence " + std::to_string(item.sequence) + ": " + what;
    }
  }

  void CheckBatch(const core::Batch& batch) {
    std::set<uint64_t> names;
    std::set<core::BlockId> written;
    for (const core::BatchItem& item : batch.items) {
      if (item.padding) {
        if (item.sequence != 0) Violate(item, "is padding with a name");
        continue;
      }
      if (!names.insert(item.sequence).second) Violate(item, "is in the batch twice");
      if (item.tokens.empty()) Violate(item, "has no token in the batch");
      const int32_t end = item.start + static_cast<int32_t>(item.tokens.size());
      const int32_t first = item.start / base::kBlockTokens * groups();
      for (int32_t b = first; b / groups() * base::kBlockTokens < end; ++b) {
        if (static_cast<size_t>(b) >= item.blocks.size()) break;
        if (!written.insert(item.blocks[static_cast<size_t>(b)]).second) {
          Violate(item, "writes a block that another one of the batch writes");
        }
      }
    }
    if (batch.num_tokens() > max_tokens_) Violate(batch.items[0], "batch beyond the token budget");
    if (static_cast<int>(batch.items.size()) > max_seqs_) {
      Violate(batch.items[0], "batch beyond max_num_seqs");
    }
  }

  Slot* Find(const core::BatchItem& item, int32_t position, int32_t group = 0) {
    const auto index = static_cast<size_t>(position / base::kBlockTokens * groups() + group);
    if (index >= item.blocks.size()) {
      Violate(item, "no block for position " + std::to_string(position));
      return nullptr;
    }
    const size_t slot = static_cast<size_t>(item.blocks[index]) * base::kBlockTokens +
                        static_cast<size_t>(position % base::kBlockTokens);
    if (item.blocks[index] < 0 || slot >= slots_.size()) {
      Violate(item, "block " + std::to_string(item.blocks[index]) + " does not exist");
      return nullptr;
    }
    return &slots_[slot];
  }

  // Like ScoreOf, with the context read back through the block table.
  void Score(const core::BatchItem& item, std::vector<core::Scored>* scored) {
    if (item.score_begin == item.score_end) return;
    const auto end = item.start + static_cast<int32_t>(item.tokens.size());
    if (item.score_begin <= item.start || item.score_begin > item.score_end ||
        item.score_end > end + 1 || item.ids.size() < static_cast<size_t>(item.score_end)) {
      Violate(item, "scores ids [" + std::to_string(item.score_begin) + ", " +
                        std::to_string(item.score_end) + ") with the tokens [" +
                        std::to_string(item.start) + ", " + std::to_string(end) + ") and " +
                        std::to_string(item.ids.size()) + " ids");
      return;
    }
    uint64_t hash = SeedOf(kScoreSeed, item.long_rope);
    for (int32_t position = 0; position + 1 < item.score_end; ++position) {
      const Slot* slot = Find(item, position);
      if (slot == nullptr) return;
      hash = base::Mix64(hash, static_cast<uint64_t>(slot->token) + 1);
      if (position + 1 < item.score_begin) continue;
      core::Scored& s = scored->emplace_back();
      s.sequence = item.sequence;
      s.position = position + 1;
      s.token = item.ids[static_cast<size_t>(position) + 1];
      s.logprob = LogprobOf(base::Mix64(hash, static_cast<uint64_t>(s.token) + 1));
      for (int32_t rank = 0; rank < item.spec->num_prompt_logprobs; ++rank) {
        const uint64_t best = base::Mix64(hash, static_cast<uint64_t>(rank) << 32);
        s.top_logprobs.push_back({static_cast<TokenId>(best % kVocabSize), LogprobOf(best)});
      }
    }
  }

  // Like PoolOf, with the context read back through the block table.
  void Pool(const core::BatchItem& item, std::vector<core::Pooled>* all) {
    if (item.pool_begin == item.pool_end) return;
    const auto end = item.start + static_cast<int32_t>(item.tokens.size());
    if (item.pool_begin < item.start || item.pool_end > end) Violate(item, "pools beyond its rows");
    core::Pooled& pooled = all->emplace_back();
    pooled.sequence = item.sequence;
    pooled.sum.assign(item.pool_sum.begin(), item.pool_sum.end());
    pooled.sum.resize(2);
    uint64_t hash = kPoolSeed;
    for (int32_t position = 0; position < item.pool_end; ++position) {
      const Slot* slot = Find(item, position);
      if (slot == nullptr) return;
      hash = base::Mix64(hash, static_cast<uint64_t>(slot->token) + 1);
      if (position >= item.pool_begin) AddPooled(hash, &pooled.sum);
    }
  }

  uint64_t ContextHash(const core::BatchItem& item, int32_t length) {
    uint64_t hash = SeedOf(item.spec->seed, item.long_rope);
    for (int32_t group = 0; group < groups(); ++group) {
      for (int32_t position = FirstSeen(group, item.start); position < length; ++position) {
        const Slot* slot = Check(item, position, group);
        if (slot == nullptr) return 0;
        if (group > 0 || position < FirstSeen(group, length - 1)) continue;
        hash = base::Mix64(hash, static_cast<uint64_t>(slot->token) + 1);
      }
    }
    return hash;
  }

  // What a row of the item reads at `position`; null: nothing can be read.
  const Slot* Check(const core::BatchItem& item, int32_t position, int32_t group) {
    const Slot* slot = Find(item, position, group);
    if (slot == nullptr) return nullptr;
    const int32_t place = PlaceOf(item, position, group);
    // The ids tell what the slot must hold, wherever its block came from.
    const auto at = static_cast<size_t>(position);
    if (at < item.ids.size() && slot->token != item.ids[at]) {
      Violate(item, "position " + std::to_string(position) + " reads the K/V of token " +
                        std::to_string(slot->token) + ", not of its own " +
                        std::to_string(item.ids[at]));
    }
    if (slot->scope != ScopeOf(item.sequence) && foreign_read_.empty()) {
      foreign_read_ = "sequence " + std::to_string(item.sequence) + " of scope " +
                      std::to_string(ScopeOf(item.sequence)) + " reads a block of scope " +
                      std::to_string(slot->scope);
    }
    if (slot->place != place) {
      Violate(item, "position " + std::to_string(place) + " reads the K/V of position " +
                        std::to_string(slot->place));
    }
    return slot;
  }

  // A read that was begun, and what it brings.
  struct LateRead {
    std::span<std::byte> to;
    std::vector<std::byte> bytes;
  };

  const Kv kv_;
  std::vector<Slot> slots_;  // [block][kBlockTokens]
  std::vector<LateRead> late_reads_;
  const core::Batch* batch_ = nullptr;
  core::Batch changed_;
  int64_t steps_ = 0;
  int64_t rows_ = 0;
  int max_tokens_ = 0;
  int max_seqs_ = 0;
  std::string violation_;
  std::string foreign_read_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_EXECUTOR_H_
