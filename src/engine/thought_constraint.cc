#include "engine/thought_constraint.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/mask_bits.h"

namespace ropeway::engine {
namespace {

class State final : public core::ConstraintState {
 public:
  State(std::unique_ptr<core::ConstraintState> inner, const ThoughtTokens* tokens, bool in_thought)
      : inner_(std::move(inner)), tokens_(tokens), place_(in_thought ? kThought : kBegin) {}

  Status Mask(std::span<uint32_t> words) override {
    if (place_ == kThought && is_bound()) {
      std::fill(words.begin(), words.end(), 0);
      core::Allow(tokens_->close[matched_], words);
      return {};
    }
    if (place_ == kThought) {
      std::copy(tokens_->free.begin(), tokens_->free.end(), words.begin());
      return {};
    }
    if (Status status = inner_->Mask(words); !status.ok()) return status;
    if (place_ == kBegin && tokens_->open) {
      core::Allow(*tokens_->open, words);
    } else if (place_ == kSpace) {
      for (size_t i = 0; i < words.size(); ++i) words[i] |= tokens_->space[i];
    }
    return {};
  }

  Status Accept(TokenId id) override {
    switch (place_) {
      case kBegin:
        if (tokens_->open && id == *tokens_->open) {
          place_ = kThought;
          return {};
        }
        break;
      case kThought:
        return Think(id);
      case kSpace:
        if (core::Allows(tokens_->space, id)) {
          if (++spaces_ == ThoughtConstraint::kMostSpace) place_ = kAnswer;
          return {};
        }
        break;
      case kAnswer:
        break;
    }
    place_ = kAnswer;
    return inner_->Accept(id);
  }

  bool complete() const override { return place_ != kThought && inner_->complete(); }
  bool ended() const override { return inner_->ended(); }
  size_t bytes() const override { return sizeof(*this) + inner_->bytes(); }

 private:
  enum Place : uint8_t { kBegin, kThought, kSpace, kAnswer };

  // Two tokens of the mark were generated ("<|channel|>final"): only the rest of it may follow.
  bool is_bound() const { return matched_ >= 2; }

  Status Think(TokenId id) {
    if (!core::Allows(tokens_->free, id) || (is_bound() && id != tokens_->close[matched_])) {
      return InvalidArgument("the token cannot stand here in a thought");
    }
    // Marks of several tokens begin with one that they have nowhere else.
    matched_ = id == tokens_->close[matched_] ? matched_ + 1 : size_t{id == tokens_->close[0]};
    if (matched_ < tokens_->close.size()) return {};
    place_ = kSpace;
    return {};
  }

  const std::unique_ptr<core::ConstraintState> inner_;
  const ThoughtTokens* const tokens_;
  Place place_;
  size_t matched_ = 0;  // Tokens of tokens_->close.
  int spaces_ = 0;
};

}  // namespace

std::unique_ptr<core::ConstraintState> ThoughtConstraint::Begin() const {
  return std::make_unique<State>(inner_->Begin(), tokens_, in_thought_);
}

}  // namespace ropeway::engine
