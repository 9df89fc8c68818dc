// Lets a model think before its answer has a form.
#ifndef ROPEWAY_ENGINE_THOUGHT_CONSTRAINT_H_
#define ROPEWAY_ENGINE_THOUGHT_CONSTRAINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/constraint.h"
#include "ropeway/request.h"

namespace ropeway::engine {

// How thoughts stand among the tokens of a model. Const.
struct ThoughtTokens {
  std::optional<TokenId> open;  // Begins a thought; absent: only a prompt begins one.
  std::vector<TokenId> close;   // These, in a row, end it. Empty: the model does not think.
  std::vector<uint32_t> free;   // The mask within a thought: all but what would end the output.
  std::vector<uint32_t> space;  // The mask of tokens that are white space.
};

// A constraint that begins behind the thought, if there is one: `in_thought` says that the prompt
// began it, else the first token may. Within it the model is free, but for ending its output. Up to
// kMostSpace tokens of white space may stand between the thought and the answer.
class ThoughtConstraint final : public core::Constraint {
 public:
  static constexpr int kMostSpace = 2;

  // `tokens` must outlive it, and has masks of inner->mask_words().
  ThoughtConstraint(std::shared_ptr<const core::Constraint> inner, const ThoughtTokens* tokens,
                    bool in_thought)
      : inner_(std::move(inner)), tokens_(tokens), in_thought_(in_thought) {}

  size_t mask_words() const override { return inner_->mask_words(); }
  std::unique_ptr<core::ConstraintState> Begin() const override;

 private:
  const std::shared_ptr<const core::Constraint> inner_;
  const ThoughtTokens* const tokens_;
  const bool in_thought_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_THOUGHT_CONSTRAINT_H_
