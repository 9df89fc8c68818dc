#include "server/stored_record.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

namespace ropeway::server {
namespace {

StoredRequest RequestOfTest() {
  StoredRequest request;
  request.tenant = "t";
  request.id = "resp_1";
  request.body = R"({"input":"x"})";
  request.head.id = "1";
  request.head.created = 17;
  request.head.model = "m";
  request.head.fingerprint = "f";
  request.head.priority = Priority::kLow;
  request.head.prompt_texts = {"p", ""};
  request.seed = ~uint64_t{0};
  request.background = true;
  request.weight = 0.25;
  request.cache_scope = "s";
  request.previous = "resp_0";
  request.conversation = "conv_1";
  request.basis = "d|n|l";
  return request;
}

StoredChoice ChoiceOfTest() {
  StoredChoice choice;
  Delta said;
  said.text = "a";
  said.tokens.push_back({3, "a", -0.5F, {{3, -0.5F}, {4, -1.0F}}, {"a", "b"}, 7});
  Delta thought;
  thought.reasoning = "hm";
  Delta called;
  called.tool_calls = {{1, "call_1", "f", "{"}};
  Delta prompt;
  prompt.prompt_tokens.push_back({1, "<s>", -0.25F, {}, {}, 0});
  choice.pieces = {prompt, thought, said, called};
  choice.ids = {1, 2, 3};
  Finish& finish = choice.finish.emplace();
  finish.reason = FinishReason::kLength;
  finish.usage = {5, 6, 1, 2, true};
  finish.seed = 9;
  finish.batch_num = 3;
  finish.times.decode = std::chrono::nanoseconds(11);
  finish.cut_by = kTokensPerMinute;
  return choice;
}

// Its first `count` pieces.
ChoicePart PartOfTest(size_t count) {
  StoredChoice choice = ChoiceOfTest();
  return {PieceLog(std::move(choice.pieces)), count, std::move(choice.ids), choice.finish};
}

std::string PackedAnswer() {
  return PackAnswer(api::AnswerState::kIncomplete,
                    api::ApiError{429, "message", "type", "param", "code"},
                    {PartOfTest(4), ChoicePart()});
}

TEST(StoredRecord, KeepsTheRequest) {
  const StatusOr<StoredRequest> read = UnpackRequest(PackRequest(RequestOfTest()));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(PackRequest(*read), PackRequest(RequestOfTest()));
  EXPECT_EQ(read->body, R"({"input":"x"})");
  EXPECT_EQ(read->head.priority, Priority::kLow);
  EXPECT_EQ(read->head.prompt_texts.size(), 2U);
  EXPECT_TRUE(read->head.stored);
  EXPECT_TRUE(read->background);
  EXPECT_FALSE(read->stream);
  EXPECT_EQ(read->weight, 0.25);
}

TEST(StoredRecord, KeepsTheOutput) {
  const StatusOr<StoredAnswer> read = UnpackAnswer(PackedAnswer());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->state, api::AnswerState::kIncomplete);
  EXPECT_EQ(read->error->http_status, 429);
  EXPECT_EQ(read->error->code, "code");
  ASSERT_EQ(read->choices.size(), 2U);
  const StoredChoice& choice = read->choices[0];
  ASSERT_EQ(choice.pieces.size(), 4U);
  EXPECT_EQ(choice.pieces[0].prompt_tokens[0].bytes, "<s>");
  EXPECT_EQ(choice.pieces[1].reasoning, "hm");
  EXPECT_EQ(choice.pieces[2].text, "a");
  EXPECT_EQ(choice.pieces[2].tokens[0].top_logprobs[1].logprob, -1.0F);
  EXPECT_EQ(choice.pieces[2].tokens[0].top_bytes[1], "b");
  EXPECT_EQ(choice.pieces[2].tokens[0].text_offset, 7U);
  EXPECT_EQ(choice.pieces[3].tool_calls[0].name, "f");
  EXPECT_EQ(choice.ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(choice.finish->usage.reasoning_tokens, 2);
  EXPECT_TRUE(choice.finish->usage.estimated);
  EXPECT_EQ(choice.finish->times.decode.count(), 11);
  EXPECT_STREQ(choice.finish->cut_by, kTokensPerMinute);
  EXPECT_FALSE(read->choices[1].finish);
}

TEST(StoredRecord, KeepsTheStopString) {
  for (const int32_t stop : {-1, 0, 15}) {
    StoredChoice choice = ChoiceOfTest();
    choice.finish->reason = FinishReason::kStop;
    choice.finish->stop = stop;
    const ChoicePart part = {PieceLog(std::move(choice.pieces)), 4, {}, choice.finish};
    const StatusOr<StoredAnswer> read =
        UnpackAnswer(PackAnswer(api::AnswerState::kCompleted, std::nullopt, {part}));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->choices[0].finish->reason, FinishReason::kStop);
    EXPECT_EQ(read->choices[0].finish->stop, stop);
  }
}

// What is packed of an answer under way: the pieces that its ids account for.
TEST(StoredRecord, KeepsAPart) {
  const StatusOr<StoredAnswer> read =
      UnpackAnswer(PackAnswer(api::AnswerState::kInProgress, std::nullopt, {PartOfTest(2)}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->choices[0].pieces.size(), 2U);
  EXPECT_FALSE(read->error);
}

TEST(StoredRecord, DamageIsFound) {
  const std::string request = PackRequest(RequestOfTest());
  for (size_t i = 0; i < request.size(); ++i) {
    std::string damaged = request;
    damaged[i] ^= 1;
    EXPECT_EQ(UnpackRequest(damaged).status().code(), StatusCode::kDataLoss) << i;
  }
  const std::string answer = PackedAnswer();
  for (size_t i = 0; i < answer.size(); ++i) {
    std::string damaged = answer;
    damaged[i] ^= 1;
    EXPECT_EQ(UnpackAnswer(damaged).status().code(), StatusCode::kDataLoss) << i;
  }
  EXPECT_EQ(UnpackAnswer(request).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(UnpackAnswer("").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ropeway::server
