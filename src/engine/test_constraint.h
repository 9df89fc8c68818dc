// A constraint without a grammar, and what an executor's double does with its masks: for tests and
// the simulation.
#ifndef ROPEWAY_ENGINE_TEST_CONSTRAINT_H_
#define ROPEWAY_ENGINE_TEST_CONSTRAINT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/random.h"
#include "core/batch.h"
#include "core/constraint.h"

namespace ropeway::engine {

// Allows about a quarter of the vocabulary, by a hash of all ids so far, and once `length` ids are
// accepted the end token alone. So a mask of another sequence, or of other ids, is soon noticed.
class TestConstraint final : public core::Constraint {
 public:
  // The message of a mask that fails.
  static constexpr const char* kFails = "too much work";

  struct Options {
    int32_t vocab_size = 1000;
    int32_t length = 10;
    TokenId end = 7;
    uint64_t seed = 0;
    int32_t fails_at = -1;          // The mask behind so many ids is an error.
    int32_t empty_at = -1;          // The mask behind so many ids is empty.
    bool complete_without = false;  // There is no end token: the output is complete at its length.
    // Called for each mask, and each accepted id: they may take time.
    std::function<void()> on_mask = {};
    std::function<void()> on_accept = {};
  };

  explicit TestConstraint(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }

  size_t mask_words() const override {
    return (static_cast<size_t>(options_.vocab_size) + 31) / 32;
  }
  std::unique_ptr<core::ConstraintState> Begin() const override {
    return std::make_unique<State>(&options_);
  }

  // Whether `id` may come behind `before`.
  bool Allows(std::span<const TokenId> before, TokenId id) const {
    State state(&options_);
    for (const TokenId each : before) state.Take(each);
    return state.Allows(id);
  }

 private:
  class State final : public core::ConstraintState {
   public:
    explicit State(const Options* options) : options_(options) {}

    Status Mask(std::span<uint32_t> words) override {
      if (options_->on_mask) options_->on_mask();
      if (count_ == options_->fails_at) return InvalidArgument(kFails);
      std::fill(words.begin(), words.end(), 0);
      for (TokenId id = 0; id < options_->vocab_size; ++id) {
        if (Allows(id)) words[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
      }
      return {};
    }
    Status Accept(TokenId id) override {
      if (options_->on_accept) options_->on_accept();
      if (!Allows(id)) return InvalidArgument("not allowed");
      ended_ = complete() && !options_->complete_without;
      Take(id);
      return {};
    }
    bool complete() const override { return count_ >= options_->length; }
    bool ended() const override { return ended_; }
    size_t bytes() const override { return static_cast<size_t>(count_) * 100; }

    bool Allows(TokenId id) const {
      if (count_ == options_->empty_at) return false;
      if (complete()) return !options_->complete_without && id == options_->end;
      return id != options_->end && base::Mix64(hash_, static_cast<uint64_t>(id)) % 4 == 0;
    }
    void Take(TokenId id) {
      hash_ = base::Mix64(hash_, static_cast<uint64_t>(id) + 1);
      ++count_;
    }

   private:
    const Options* const options_;
    uint64_t hash_ = options_->seed;
    int32_t count_ = 0;
    bool ended_ = false;
  };

  const Options options_;
};

// As an executor must: the sampled token becomes the next one that the item's mask allows.
inline void ApplyTestMask(const core::BatchItem& item, int32_t vocab_size, core::Sampled* sampled) {
  if (item.mask == nullptr) return;
  if (!item.mask->ready) {
    sampled->token = -1;  // Without meaning.
    return;
  }
  for (int32_t i = 0; i < vocab_size; ++i) {
    const TokenId id = (sampled->token + i) % vocab_size;
    const auto word = static_cast<size_t>(id) / 32;
    if (word < item.mask->words.size() && (item.mask->words[word] >> (id % 32) & 1U) != 0) {
      sampled->token = id;
      return;
    }
  }
  sampled->invalid = true;
}

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_CONSTRAINT_H_
