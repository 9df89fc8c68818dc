#include "engine/thought_constraint.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/test_constraint.h"

namespace ropeway::engine {
namespace {

constexpr TokenId kOpen = 1;
constexpr TokenId kSpaceToken = 4;
constexpr TokenId kEnd = 7;
constexpr TokenId kWord = 20;

ThoughtTokens Tokens(std::vector<TokenId> close) {
  ThoughtTokens tokens;
  tokens.open = kOpen;
  tokens.close = std::move(close);
  tokens.free = {~(1U << static_cast<uint32_t>(kEnd))};
  tokens.space = {1U << static_cast<uint32_t>(kSpaceToken)};
  return tokens;
}

class ThoughtConstraintTest : public testing::Test {
 protected:
  std::unique_ptr<core::ConstraintState> Begin(const ThoughtTokens& tokens, bool in_thought) {
    constraint_ = std::make_unique<ThoughtConstraint>(inner_, &tokens, in_thought);
    return constraint_->Begin();
  }
  static uint32_t MaskOf(core::ConstraintState* state) {
    std::vector<uint32_t> words(1);
    EXPECT_TRUE(state->Mask(words).ok());
    return words[0];
  }
  uint32_t InnerMask() const { return MaskOf(inner_->Begin().get()); }
  static uint32_t Bit(TokenId id) { return 1U << static_cast<uint32_t>(id); }

  const std::shared_ptr<const core::Constraint> inner_ = std::make_shared<TestConstraint>(
      TestConstraint::Options{.vocab_size = 32, .length = 3, .end = kEnd, .seed = 9});
  std::unique_ptr<ThoughtConstraint> constraint_;
};

TEST_F(ThoughtConstraintTest, TheAnswerBeginsBehindTheMark) {
  const ThoughtTokens tokens = Tokens({2});
  auto state = Begin(tokens, true);
  EXPECT_EQ(MaskOf(state.get()), tokens.free[0]);
  EXPECT_FALSE(state->complete());
  EXPECT_FALSE(Begin(tokens, true)->Accept(kEnd).ok()) << "a thought does not end the output";
  ASSERT_TRUE(state->Accept(kWord).ok());
  ASSERT_TRUE(state->Accept(2).ok());
  EXPECT_EQ(MaskOf(state.get()), InnerMask() | Bit(kSpaceToken));
  for (int i = 0; i < ThoughtConstraint::kMostSpace; ++i) {
    ASSERT_TRUE(state->Accept(kSpaceToken).ok());
  }
  EXPECT_EQ(MaskOf(state.get()), InnerMask());
}

TEST_F(ThoughtConstraintTest, TheFirstTokenMayBeginTheThought) {
  const ThoughtTokens tokens = Tokens({2});
  auto state = Begin(tokens, false);
  EXPECT_EQ(MaskOf(state.get()), InnerMask() | Bit(kOpen));
  ASSERT_TRUE(state->Accept(kOpen).ok());
  EXPECT_EQ(MaskOf(state.get()), tokens.free[0]);
  // Or the answer begins at once.
  state = Begin(tokens, false);
  TokenId first = 0;
  while ((InnerMask() >> static_cast<uint32_t>(first) & 1U) == 0 || first == kOpen) ++first;
  ASSERT_TRUE(state->Accept(first).ok());
  auto inner = inner_->Begin();
  ASSERT_TRUE(inner->Accept(first).ok());
  EXPECT_EQ(MaskOf(state.get()), MaskOf(inner.get()));
}

// "<|channel|>", "final", "<|message|>".
TEST_F(ThoughtConstraintTest, AMarkOfSeveralTokensIsCompletedOnceItIsCertain) {
  const ThoughtTokens tokens = Tokens({2, 3, 5});
  auto state = Begin(tokens, true);
  ASSERT_TRUE(state->Accept(2).ok());
  ASSERT_TRUE(state->Accept(kWord).ok()) << "another channel";
  ASSERT_TRUE(state->Accept(2).ok());
  EXPECT_EQ(MaskOf(state.get()), tokens.free[0]);
  ASSERT_TRUE(state->Accept(3).ok());
  EXPECT_EQ(MaskOf(state.get()), Bit(5));
  ASSERT_TRUE(state->Accept(5).ok());
  EXPECT_EQ(MaskOf(state.get()), InnerMask() | Bit(kSpaceToken));
}

}  // namespace
}  // namespace ropeway::engine
