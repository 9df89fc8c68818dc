#include "engine/prompt_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shared_budget.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

class PromptPoolTest : public testing::Test {
 protected:
  void Start(size_t capacity, const PromptEncoder* encoder = nullptr) {
    pool_ = std::make_unique<PromptPool>(
        encoder != nullptr ? encoder : &encoder_, &grammars_, &clock_, &bytes_, 1, capacity,
        [this](core::CoreRequest request) {
          const std::lock_guard lock(mu_);
          ready_.push_back(request.id);
        },
        [this](const std::shared_ptr<LiveRequest>& live, const Status& status) {
          const std::lock_guard lock(mu_);
          rejected_.emplace_back(live->id, status.code());
          last_rejection_ = status;
        });
  }

  void TearDown() override {
    gate_.Open();
    grammar_gate_.Open();
    grammars_.Stop();
  }

  // A request whose grammar is compiled first.
  std::shared_ptr<LiveRequest> WithGrammar(const std::string& tenant, const std::string& ebnf) {
    std::shared_ptr<LiveRequest> live = Live(tenant, "text");
    live->grammar = std::make_shared<const GrammarText>(ebnf);
    return live;
  }
  // The tenant's next grammars wait until the gate opens.
  void HoldGrammars(const std::string& tenant) {
    grammar_gate_.Close();
    EXPECT_TRUE(grammars_.TryAdd(
        {.tenant = tenant}, std::make_shared<const GrammarText>(""),
        [this] {
          grammar_gate_.Pass();
          return false;
        },
        [](const GrammarPool::Compiled&) {}));
  }
  std::optional<StatusCode> RejectionOf(RequestId id) {
    const std::lock_guard lock(mu_);
    for (const auto& [rejected, code] : rejected_) {
      if (rejected == id) return code;
    }
    return std::nullopt;
  }

  std::shared_ptr<LiveRequest> Live(const std::string& tenant, const std::string& text) {
    auto live = std::make_shared<LiveRequest>();
    live->id = ++id_;
    live->request.prompt = text;
    live->request.tenant = tenant;
    live->request.max_tokens = 1;
    return live;
  }
  std::shared_ptr<LiveRequest> Chat(const std::string& tenant, const std::string& content) {
    std::shared_ptr<LiveRequest> live = Live(tenant, "");
    live->request.prompt = ropeway::Chat{.messages = {{"user", content}}};
    return live;
  }
  bool Add(const std::string& tenant, const std::string& text) {
    return pool_->TryAdd(Live(tenant, text));
  }

  bool IsReady(RequestId id) {
    const std::lock_guard lock(mu_);
    return std::find(ready_.begin(), ready_.end(), id) != ready_.end();
  }

  TestGate grammar_gate_;
  GrammarPool grammars_{std::make_shared<ByteTokenizer>(), 8};
  TestGate gate_;
  SkippingClock clock_;
  base::SharedBudget bytes_{int64_t{64} << 20};
  PromptEncoder encoder_{std::make_shared<ByteTokenizer>(&gate_), {}, 4096, {}, nullptr, nullptr};
  std::mutex mu_;
  std::vector<RequestId> ready_;
  std::vector<std::pair<RequestId, StatusCode>> rejected_;
  Status last_rejection_;
  RequestId id_ = 0;
  std::unique_ptr<PromptPool> pool_;  // Last: its threads use the others.
};

TEST_F(PromptPoolTest, EachTenantHasPlacesWhateverTheOthersHave) {
  gate_.Close();
  Start(4);
  ASSERT_TRUE(Add("greedy", ByteTokenizer::kHeld));
  int taken = 1;
  while (Add("greedy", "x")) ++taken;
  EXPECT_GE(taken, 4);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Add("modest", "x")) << i;
  const RequestId modest = id_;
  // While the piece of one cannot be cut, another's is encoded beside it.
  EXPECT_TRUE(Eventually([&] { return IsReady(modest); }));
  EXPECT_FALSE(IsReady(2)) << "the greedy one's second";
  gate_.Open();
  EXPECT_TRUE(Eventually([&] { return IsReady(static_cast<RequestId>(taken)); }));
}

TEST_F(PromptPoolTest, OneThatCannotFitOrIsOverdueIsRejected) {
  Start(10);
  const auto rejections = [&] {
    const std::lock_guard lock(mu_);
    return rejected_.size();
  };
  ASSERT_TRUE(Add("", std::string(5000, 'x')));
  EXPECT_TRUE(Eventually([&] { return rejections() == 1; }));
  const std::shared_ptr<LiveRequest> late = Live("", ByteTokenizer::kEndless);
  late->deadline = clock_.Now() + std::chrono::seconds(100);
  ASSERT_TRUE(pool_->TryAdd(late));
  clock_.skipped += 200;
  ASSERT_TRUE(Eventually([&] { return rejections() == 2; }));
  EXPECT_EQ(rejected_[0], std::pair(RequestId{1}, StatusCode::kInvalidArgument));
  EXPECT_EQ(rejected_[1], std::pair(RequestId{2}, StatusCode::kDeadlineExceeded));
  EXPECT_EQ(late->state(), LiveRequest::State::kEnded);
}

// It pauses where it asks whether it is stopped, and holds up no one else.
TEST_F(PromptPoolTest, ALongRenderingEndsWithItsRequest) {
  std::atomic<int> rendering = 0;
  const PromptEncoder renders(
      std::make_shared<ByteTokenizer>(&gate_),
      [&](const auto&, const StoppedFn& stopped) -> StatusOr<tokenizer::RenderedChat> {
        ++rendering;
        while (!stopped(0)) std::this_thread::yield();
        --rendering;
        return Status(StatusCode::kCancelled, "stopped");
      },
      4096, {}, nullptr, nullptr);
  Start(10, &renders);
  const std::shared_ptr<LiveRequest> timed = Chat("timed", "hi");
  timed->deadline = clock_.Now() + std::chrono::seconds(100);
  const std::shared_ptr<LiveRequest> cancelled = Chat("cancelled", "hi");
  ASSERT_TRUE(pool_->TryAdd(timed));
  ASSERT_TRUE(pool_->TryAdd(cancelled));
  ASSERT_TRUE(Eventually([&] { return rendering == 2; }));
  ASSERT_TRUE(Add("modest", "x"));
  EXPECT_TRUE(Eventually([&] { return IsReady(id_); }));
  EXPECT_TRUE(cancelled->Move(LiveRequest::State::kEncoding, LiveRequest::State::kEnded));
  EXPECT_TRUE(Eventually([&] { return rendering == 1; }));
  clock_.skipped += 200;
  EXPECT_TRUE(Eventually([&] { return rendering == 0; }));
  pool_->Stop();
  EXPECT_EQ(rejected_, (std::vector{std::pair(timed->id, StatusCode::kDeadlineExceeded)}));
}

// Of as many tenants as the pool has threads, and one more; and of one tenant, as all are to a
// server without keys.
TEST_F(PromptPoolTest, LongRenderingsHoldUpNoSmallChat) {
  const PromptEncoder renders(
      std::make_shared<ByteTokenizer>(&gate_),
      [](const ropeway::Chat& chat, const StoppedFn& stopped) -> StatusOr<tokenizer::RenderedChat> {
        while (chat.messages[0].content == "long") {
          if (stopped(0)) return Status(StatusCode::kCancelled, "stopped");
        }
        return tokenizer::RenderedChat{chat.messages[0].content};
      },
      4096, {}, nullptr, nullptr);
  Start(40, &renders);
  std::vector<std::shared_ptr<LiveRequest>> all;
  for (const std::string tenant : {"a", "b", "c", "d", "", "", "", "", "", "", "", ""}) {
    all.push_back(Chat(tenant, "long"));
    ASSERT_TRUE(pool_->TryAdd(all.back()));
  }
  for (const std::string tenant : {"e", "a", ""}) {
    all.push_back(Chat(tenant, "short"));
    ASSERT_TRUE(pool_->TryAdd(all.back()));
    EXPECT_TRUE(Eventually([&] { return IsReady(id_); })) << tenant;
  }
  pool_->Stop();
  for (const auto& live : all) EXPECT_EQ(live.use_count(), 1) << "the pool holds it";
}

// What a paused rendering holds is charged, as is what encoding takes.
TEST_F(PromptPoolTest, WhatARenderingHoldsIsChargedToItsTenant) {
  const PromptEncoder renders(
      std::make_shared<ByteTokenizer>(&gate_),
      [](const auto&, const StoppedFn& stopped) -> StatusOr<tokenizer::RenderedChat> {
        size_t held = 0;
        while (!stopped(held)) held += size_t{1} << 20;
        return Status(StatusCode::kCancelled, "stopped");
      },
      4096, {}, nullptr, nullptr);
  Start(10, &renders);
  base::SharedBudget::Hold prompts;
  ASSERT_TRUE(bytes_.Take("greedy", int64_t{4} << 20, &prompts));
  ASSERT_TRUE(pool_->TryAdd(Chat("greedy", "hi")));
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mu_);
    return rejected_ == std::vector{std::pair(RequestId{1}, StatusCode::kResourceExhausted)};
  }));
  EXPECT_TRUE(Eventually([&] { return bytes_.used() == prompts.amount(); }));
}

TEST_F(PromptPoolTest, WhatEncodingTakesIsChargedToItsTenant) {
  Start(10);
  base::SharedBudget::Hold prompts;
  ASSERT_TRUE(bytes_.Take("greedy", int64_t{4} << 20, &prompts));
  ASSERT_TRUE(Add("greedy", ByteTokenizer::kGrowing));
  const RequestId growing = id_;
  // Until it takes as much as it leaves free; others go on meanwhile and afterwards.
  ASSERT_TRUE(Add("modest", "x"));
  const RequestId modest = id_;
  const auto is_rejected = [&] {
    const std::lock_guard lock(mu_);
    return rejected_ == std::vector{std::pair(growing, StatusCode::kResourceExhausted)};
  };
  EXPECT_TRUE(Eventually(is_rejected));
  EXPECT_TRUE(Eventually([&] { return IsReady(modest); }));
  EXPECT_TRUE(Eventually([&] { return bytes_.used() == prompts.amount(); }));
}

// However many tenants there are: what is not charged is bounded by the threads.
TEST_F(PromptPoolTest, FewTextsAreFreeOfCharge) {
  Start(10);
  constexpr int kTenants = 8;
  for (int i = 0; i < kTenants; ++i) {
    ASSERT_TRUE(Add(std::to_string(i), ByteTokenizer::kLarge));
  }
  constexpr int64_t kMostFree = 1 + base::FairPool::kSpareThreads;
  EXPECT_TRUE(
      Eventually([&] { return bytes_.used() >= (kTenants - kMostFree) * PromptPool::kFreeBytes; }));
  EXPECT_LT(bytes_.used(), kTenants * PromptPool::kFreeBytes);
}

// A request that ended while a piece of it ran has no further turn.
TEST_F(PromptPoolTest, WhatEndsWhileItIsEncodedIsFreed) {
  Start(10);
  const std::shared_ptr<LiveRequest> endless = Live("", ByteTokenizer::kEndless);
  ASSERT_TRUE(pool_->TryAdd(endless));
  EXPECT_TRUE(endless->Move(LiveRequest::State::kEncoding, LiveRequest::State::kEnded));
  EXPECT_TRUE(Eventually([&] { return endless.use_count() == 1; }));
  const std::lock_guard lock(mu_);
  EXPECT_TRUE(ready_.empty());
  EXPECT_TRUE(rejected_.empty());
}

TEST_F(PromptPoolTest, StopDropsWhatIsNotReady) {
  Start(10);
  const std::shared_ptr<LiveRequest> endless = Live("", ByteTokenizer::kEndless);
  ASSERT_TRUE(pool_->TryAdd(endless));
  ASSERT_TRUE(Add("", "behind it"));
  pool_->Stop();
  EXPECT_EQ(endless.use_count(), 1) << "the pool holds it";
  EXPECT_TRUE(ready_.empty());
  EXPECT_FALSE(Add("", "x"));
}

TEST_F(PromptPoolTest, AGrammarIsCompiledFirst) {
  Start(4);
  const auto good = WithGrammar("a", "root ::= \"x\"\n");
  const auto bad = WithGrammar("a", "root ::= other\n");
  ASSERT_TRUE(pool_->TryAdd(good));
  ASSERT_TRUE(pool_->TryAdd(bad));
  EXPECT_TRUE(Eventually([&] { return IsReady(good->id) && RejectionOf(bad->id).has_value(); }));
  EXPECT_NE(good->constraint, nullptr);
  EXPECT_EQ(RejectionOf(bad->id), StatusCode::kInvalidArgument);
  // One that was compiled before waits for no other.
  HoldGrammars("a");
  const auto again = WithGrammar("a", good->grammar->ebnf);
  ASSERT_TRUE(pool_->TryAdd(again));
  EXPECT_TRUE(Eventually([&] { return IsReady(again->id); }));
  EXPECT_EQ(again->constraint, good->constraint);
}

TEST_F(PromptPoolTest, AGrammarThatCannotBeCompiledIsOfTheFieldThatAskedForIt) {
  Start(8);
  const auto bad = WithGrammar("a", "root ::= other\n");
  bad->request.format.field = "guided_json";
  ASSERT_TRUE(pool_->TryAdd(bad));
  ASSERT_TRUE(Eventually([&] { return RejectionOf(bad->id).has_value(); }));
  const std::lock_guard lock(mu_);
  EXPECT_EQ(last_rejection_.field(), "guided_json");
  EXPECT_TRUE(last_rejection_.message().starts_with("guided_json: "));
}

TEST_F(PromptPoolTest, AGrammarsRequestCanEndBeforeItIsCompiled) {
  Start(8);
  HoldGrammars("a");
  const auto cancelled = WithGrammar("a", "root ::= \"c\"\n");
  const auto overdue = WithGrammar("a", "root ::= \"o\"\n");
  overdue->deadline = clock_.Now() + std::chrono::seconds(50);
  cancelled->deadline = clock_.Now() + std::chrono::hours(1);
  const auto other = WithGrammar("b", "root ::= \"b\"\n");
  for (const auto& live : {cancelled, overdue, other}) ASSERT_TRUE(pool_->TryAdd(live));
  // Another tenant's is compiled meanwhile, and so are texts without a grammar encoded.
  EXPECT_TRUE(Eventually([&] { return IsReady(other->id); }));
  ASSERT_TRUE(cancelled->Move(LiveRequest::State::kEncoding, LiveRequest::State::kEnded));
  clock_.skipped = 60;
  ASSERT_TRUE(Add("a", "text"));
  EXPECT_TRUE(Eventually([&] { return RejectionOf(overdue->id).has_value(); }));
  EXPECT_EQ(RejectionOf(overdue->id), StatusCode::kDeadlineExceeded);
  const uint64_t misses = grammars_.stats().misses;
  grammar_gate_.Open();
  // Nothing keeps it until its deadline.
  EXPECT_TRUE(Eventually([&] { return cancelled.use_count() == 1; }));
  grammars_.Stop();
  EXPECT_EQ(grammars_.stats().misses, misses);  // Neither was compiled.
  EXPECT_FALSE(IsReady(cancelled->id));
  EXPECT_FALSE(RejectionOf(cancelled->id));
}

}  // namespace
}  // namespace ropeway::engine
