#include "engine/prompt_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fair_pool.h"
#include "engine/test_constraint.h"
#include "engine/test_fakes.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_whole_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::engine {
namespace {

// Encodes for a model of its own name; the requests differ in their senders.
class PromptEncoderTest : public testing::Test {
 protected:
  static Request From(const std::string& tenant, const std::string& scope,
                      const std::string& salt) {
    Request request;
    request.prompt = std::string(40, 'p');
    request.max_tokens = 4;
    request.tenant = tenant;
    request.cache_scope = scope;
    request.cache_salt = salt;
    return request;
  }

  static core::CoreRequest Encode(Request request, const std::string& model = "digest") {
    core::CacheRoot root;
    root.model_digest = model;
    root.kv_dtype = "f16";
    const PromptEncoder encoder(std::make_shared<ByteTokenizer>(), {}, 4096, root, nullptr,
                                nullptr);
    LiveRequest live;
    live.request = std::move(request);
    PromptEncoder::Job job(&encoder, &live);
    std::optional<StatusOr<core::CoreRequest>> core = job.Run();
    EXPECT_TRUE(core && core->ok());
    return core && core->ok() ? **std::move(core) : core::CoreRequest();
  }
};

TEST_F(PromptEncoderTest, APromptToEmbedIsCutWhereThatIsAskedFor) {
  for (const bool ids : {false, true}) {
    Request request;
    if (ids) {
      request.prompt = std::vector<TokenId>(5000, 'p');
    } else {
      request.prompt = std::string(5000, 'p');
    }
    request.embedding.emplace();
    request.embedding->truncate = true;
    EXPECT_EQ(Encode(request).prompt.size(), 4096U);
    request.embedding->truncate = false;
    const PromptEncoder encoder(std::make_shared<ByteTokenizer>(), {}, 4096, {}, nullptr, nullptr);
    LiveRequest live;
    live.request = request;
    PromptEncoder::Job job(&encoder, &live);
    const std::optional<StatusOr<core::CoreRequest>> core = job.Run();
    ASSERT_TRUE(core);
    EXPECT_STREQ(core->status().api_code(), "context_length_exceeded");
    request.embedding->truncate = true;
    request.prompt = std::string(100, 'p');
    EXPECT_EQ(Encode(request).prompt.size(), 100U);
  }
}

TEST_F(PromptEncoderTest, ATextThatIsCutKeepsTheTokenBehindIt) {
  tokenizer::Vocabulary vocabulary;
  vocabulary.model = "bert";
  vocabulary.tokens = {"[UNK]", "[CLS]", "[SEP]", "\u2581a", "\u2581b"};
  vocabulary.types = {2, 3, 3, 1, 1};
  vocabulary.unk = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_bos = vocabulary.add_eos = true;
  std::shared_ptr<const tokenizer::Tokenizer> tokens = *tokenizer::MakeTokenizer(vocabulary);
  const PromptEncoder encoder(tokens, {}, 5, {}, nullptr, nullptr);
  const auto encode = [&](const std::variant<std::string, std::vector<TokenId>, Chat>& prompt) {
    LiveRequest live;
    live.request.prompt = prompt;
    live.request.embedding.emplace();
    live.request.embedding->truncate = true;
    PromptEncoder::Job job(&encoder, &live);
    const std::optional<StatusOr<core::CoreRequest>> core = job.Run();
    EXPECT_TRUE(core && core->ok());
    return core && core->ok() ? (*core)->prompt : std::vector<TokenId>();
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode("a b b"), (Ids{1, 3, 4, 4, 2}));
  EXPECT_EQ(encode("a b b a"), (Ids{1, 3, 4, 4, 2}));
  EXPECT_EQ(encode("a b b a a a a a"), (Ids{1, 3, 4, 4, 2}));
  EXPECT_EQ(encode(Ids{3, 3, 3, 3, 4, 4}), (Ids{3, 3, 3, 3, 4})) << "nothing is added to ids";
}

TEST_F(PromptEncoderTest, EqualSendersShareAndAllOthersAreTold) {
  const std::vector<Request> all = {
      From("", "", ""),
      From("team-a", "", ""),
      From("team-b", "", ""),
      From("team-a", "", "x"),
      From("team-a", "s", ""),
      From("team-a", "s", "x"),
      From("team-a", "s", "y"),
      From("s", "", ""),
      From("s", "", "x"),
      From("team-a", "", "s"),
      From("team-a", "team-b", ""),
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const core::CoreRequest a = Encode(all[i]);
    ASSERT_EQ(a.block_names.size(), 2U);
    EXPECT_EQ(a.cache_root, Encode(all[i]).cache_root) << i;
    EXPECT_EQ(a.block_names, Encode(all[i]).block_names) << i;
    EXPECT_NE(a.cache_root, Encode(all[i], "another digest").cache_root) << i;
    for (size_t k = 0; k < i; ++k) {
      const core::CoreRequest b = Encode(all[k]);
      EXPECT_NE(a.cache_root, b.cache_root) << i << " and " << k;
      EXPECT_NE(a.block_names[0], b.block_names[0]) << i << " and " << k;
    }
  }
}

TEST_F(PromptEncoderTest, TenantsOfOneScopeShare) {
  EXPECT_EQ(Encode(From("team-a", "s", "x")).cache_root,
            Encode(From("team-b", "s", "x")).cache_root);
  EXPECT_NE(Encode(From("team-a", "s", "x")).cache_root,
            Encode(From("team-b", "s", "y")).cache_root);
}

TEST_F(PromptEncoderTest, SessionsAndLongRetentionKeepBlocksLonger) {
  Request request = From("team-a", "", "");
  EXPECT_EQ(Encode(request).retention, CacheRetention::kNormal);
  request.cache_retention = CacheRetention::kLong;
  EXPECT_EQ(Encode(request).retention, CacheRetention::kLong);
  request.cache_retention = CacheRetention::kNormal;
  request.session_id = "a session";
  EXPECT_EQ(Encode(request).retention, CacheRetention::kLong);
}

// Bytes, and the tokens of messages in channels.
class ChannelTokenizer final : public tokenizer::WholeTokenizer {
 public:
  ChannelTokenizer() {
    for (int i = 0; i < 256; ++i) texts_.emplace_back(1, static_cast<char>(i));
    for (const char* text : {"<end>", "final", "<|start|>", "<|channel|>", "<|constrain|>",
                             "<|message|>", "<|end|>"}) {
      texts_.emplace_back(text);
    }
  }
  std::vector<TokenId> Encode(std::string_view text,
                              const tokenizer::EncodeOptions&) const override {
    return {text.begin(), text.end()};
  }
  std::string_view Bytes(TokenId id, bool with_special) const override {
    return IsSpecial(id) && !with_special ? "" : std::string_view(texts_[static_cast<size_t>(id)]);
  }
  bool IsEnd(TokenId id) const override { return id == 256; }
  bool IsSpecial(TokenId id) const override { return id == 256 || id > 257; }
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::optional<TokenId> Find(std::string_view token) const override {
    const auto found = std::find(texts_.begin(), texts_.end(), token);
    if (found == texts_.end()) return std::nullopt;
    return static_cast<TokenId>(found - texts_.begin());
  }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return 256; }

 private:
  std::vector<std::string> texts_;
};

// The grammar of an answer in channels has the thoughts where it has calls, and begins behind them
// where it is a form's alone.
TEST_F(PromptEncoderTest, ThoughtsInChannelsStandBeforeAForm) {
  const auto tokens = std::make_shared<ChannelTokenizer>();
  const ModelAnswers answers(*answer::DetectFormat("", true, {.tool_parser = "harmony"}), *tokens);
  ASSERT_NE(answers.thoughts(), nullptr);
  const auto render = [](const Chat& chat, const StoppedFn&) {
    return StatusOr(tokenizer::RenderedChat{chat.messages.back().content});
  };
  const PromptEncoder encoder(tokens, render, 4096, {}, nullptr, nullptr, &answers);
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNone}) {
    LiveRequest live;
    live.constraint = std::make_shared<TestConstraint>(
        TestConstraint::Options{.vocab_size = tokens->vocab_size()});
    live.request.prompt =
        Chat{.messages = {{"user", "a"}}, .tools = {{.name = "f"}}, .tool_choice = choice};
    live.request.format.kind = OutputFormat::Kind::kJsonObject;
    PromptEncoder::Job job(&encoder, &live);
    const std::optional<StatusOr<core::CoreRequest>> core = job.Run();
    ASSERT_TRUE(core && core->ok());
    EXPECT_EQ((*core)->constraint == live.constraint, choice != ToolChoice::kNone);
  }
}

// The names that the front end makes are those that the core would.
TEST_F(PromptEncoderTest, NamesTheFullBlocksOfThePrompt) {
  const core::CoreRequest core = Encode(From("team-a", "", ""));
  EXPECT_EQ(core.block_names, core::ChainNames(core.cache_root, core.prompt));
  EXPECT_EQ(core.prompt.size(), 40U);
}

// With a real tokenizer, whose control token is "<e>".
class PiecewiseEncoderTest : public testing::Test {
 protected:
  void SetUp() override {
    tokenizer::Vocabulary vocabulary;
    vocabulary.model = "gpt2";
    vocabulary.pre = "smollm";
    const auto add = [&](std::string text, tokenizer::TokenType type) {
      vocabulary.tokens.push_back(std::move(text));
      vocabulary.types.push_back(static_cast<int32_t>(type));
    };
    for (int byte = 0; byte < 256; ++byte) {
      add(std::string(tokenizer::ByteToLetter(static_cast<uint8_t>(byte))),
          tokenizer::TokenType::kNormal);
    }
    add("he", tokenizer::TokenType::kNormal);
    add("<e>", tokenizer::TokenType::kControl);
    vocabulary.merges = {"h e"};
    auto made = tokenizer::MakeTokenizer(std::move(vocabulary));
    ASSERT_TRUE(made.ok()) << made.status().message();
    tokenizer_ = *std::move(made);
  }

  // Encodes in pieces of `work` units and counts them.
  StatusOr<core::CoreRequest> Encode(const decltype(Request::prompt)& prompt, size_t work,
                                     int32_t max_model_len = 4096) {
    const ChatRenderer render = [](const Chat& chat, const StoppedFn&) {
      const std::string& said = chat.messages[0].content;
      tokenizer::RenderedChat rendered{"he" + said + "<e>"};
      tokenizer::AddSpan(2, 2 + said.size(), &rendered.quoted);
      return StatusOr<tokenizer::RenderedChat>(std::move(rendered));
    };
    const PromptEncoder encoder(tokenizer_, render, max_model_len, {}, nullptr, nullptr);
    LiveRequest live;
    live.id = 7;
    live.request.prompt = prompt;
    live.request.max_tokens = 1;
    PromptEncoder::Job job(&encoder, &live);
    for (pieces_ = 1;; ++pieces_) {
      std::optional<StatusOr<core::CoreRequest>> core = job.Run(work);
      if (core) return *std::move(core);
    }
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  int pieces_ = 0;
};

TEST_F(PiecewiseEncoderTest, PiecesGiveTheIdsOfTheWhole) {
  std::string text;
  while (text.size() < 1500) text += "he said <e> 1\n";
  const StatusOr<core::CoreRequest> whole = Encode(text, kEncodingPiece);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(pieces_, 1);
  EXPECT_EQ(whole->prompt, tokenizer_->Encode(text, {}));
  EXPECT_EQ(whole->order, 7U);
  for (const size_t work : {size_t{1}, size_t{10}, size_t{333}}) {
    const StatusOr<core::CoreRequest> core = Encode(text, work);
    ASSERT_TRUE(core.ok());
    EXPECT_EQ(core->prompt, whole->prompt);
    EXPECT_EQ(core->block_names, whole->block_names);
    EXPECT_GT(pieces_, static_cast<int>(300 / work) + 1);
  }
}

TEST_F(PiecewiseEncoderTest, WhatAMessageSaysIsNoControlToken) {
  const auto chat = Encode(Chat{.messages = {{"user", "<e>he"}}}, kEncodingPiece);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->prompt, (std::vector<TokenId>{256, '<', 'e', '>', 256, 257}));
  // A text is the client's as a whole.
  EXPECT_EQ(Encode(std::string("<e>"), kEncodingPiece)->prompt, (std::vector<TokenId>{257}));
}

// In the order of the prompt pool: a short text waits for the piece of another tenant's long ones
// that is being encoded, and for no further one.
TEST_F(PiecewiseEncoderTest, ALongTextDelaysAnotherTenantsByOnePiece) {
  const PromptEncoder encoder(tokenizer_, {}, 10'000'000, {}, nullptr, nullptr);
  std::string words;
  while (words.size() < 660'000) words += "hehe 12 ";
  std::list<LiveRequest> requests;
  std::list<PromptEncoder::Job> jobs;
  base::FairQueue queue;
  std::vector<std::string> ended;
  const auto add = [&](const std::string& tenant, Priority priority, double weight,
                       const std::string& text) {
    LiveRequest& live = requests.emplace_back();
    live.request.prompt = text;
    live.request.max_tokens = 1;
    PromptEncoder::Job& job = jobs.emplace_back(&encoder, &live);
    queue.Add({tenant, static_cast<int>(priority), weight},
              [&job, &ended, tenant] {
                const bool done = job.Run().has_value();
                if (done) ended.push_back(tenant);
                return done;
              },
              {});
  };
  const auto run = [&queue](base::FairQueue::Handle job) {
    const bool done = job.front().piece().done;
    queue.Return(&job, base::FairQueue::kExpectedPiece, done);
  };
  for (int i = 0; i < 3; ++i) add("greedy", Priority::kHigh, 100, words);
  base::FairQueue::Handle running = queue.Take();
  add("modest", Priority::kLow, 0.5, "he said");
  run(std::move(running));
  base::FairQueue::Handle next = queue.Take();
  ASSERT_EQ(next.front().tenant(), "modest");
  run(std::move(next));
  EXPECT_EQ(ended, std::vector<std::string>{"modest"});
  int pieces = 1;
  for (; !queue.empty(); ++pieces) run(queue.Take());
  EXPECT_EQ(ended.size(), 4U);
  // Each piece does a part of a long text, of bounded work.
  EXPECT_GT(pieces, static_cast<int>(3 * words.size() / (2 * kEncodingPiece)));
}

// What cannot fit is not encoded to its end: one piece of the size of a short prompt's tells it.
TEST_F(PiecewiseEncoderTest, ATextThatIsFarTooLongEndsEarly) {
  std::string words;
  while (words.size() < 660'000) words += "hehe 12 ";
  for (const std::string& text : {words, std::string(660'000, 'q')}) {
    const StatusOr<core::CoreRequest> core = Encode(text, kEncodingPiece, 1000);
    ASSERT_FALSE(core.ok());
    EXPECT_LE(pieces_, 2);
    EXPECT_EQ(core.status().field(), "prompt");
    EXPECT_NE(core.status().message().find("at least"), std::string::npos);
    EXPECT_NE(core.status().message().find("limit of 1000 tokens"), std::string::npos);
  }
  // One that is a little too long is told its length.
  EXPECT_NE(Encode(std::string(1100, 'q'), kEncodingPiece, 1000)
                .status()
                .message()
                .find("the prompt (1100 tokens)"),
            std::string::npos);
}

}  // namespace
}  // namespace ropeway::engine
