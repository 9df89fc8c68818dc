// Requests that go on where another engine left off (Request::resume_ids), in a whole engine of
// fakes: text, log-probs and ends behind every token equal the uninterrupted run's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

// Keeps each delta by itself.
class DeltaSink final : public Sink {
 public:
  void OnAdmitted(RequestId, const Admission&) override {}
  bool OnDelta(RequestId, Delta delta) override {
    const std::lock_guard lock(mu_);
    deltas_.push_back(std::move(delta));
    return true;
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    const std::lock_guard lock(mu_);
    finish_ = outcome.finish;
    error_ = outcome.status;
    ended_.notify_all();
  }

  // These wait for the end, for at most a minute.
  std::vector<Delta> deltas() {
    Wait();
    return deltas_;
  }
  Finish finish() {
    Wait();
    EXPECT_TRUE(error_.ok()) << error_.message();
    return finish_.value_or(Finish());
  }
  Status error() {
    Wait();
    return error_;
  }

 private:
  void Wait() {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(
        ended_.wait_for(lock, std::chrono::seconds(60), [this] { return finish_.has_value(); }));
  }

  std::mutex mu_;
  std::condition_variable ended_;
  std::vector<Delta> deltas_;
  std::optional<Finish> finish_;
  Status error_;
};

class LlmEngineResumeTest : public testing::Test {
 protected:
  LlmEngineResumeTest() { test_.check_integrity = true; }

  static Request Asked(std::string prompt) {
    Request request = TextRequest(std::move(prompt));
    request.sampling.seed = 5;
    request.logprobs = 2;
    request.choice = 3;
    return request;
  }

  std::shared_ptr<DeltaSink> Submit(const Request& request) {
    auto sink = std::make_shared<DeltaSink>();
    const StatusOr<RequestId> id = test_.engine->Submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return sink;
  }

  static void ExpectSame(const OutputToken& a, const OutputToken& b) {
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.logprob, b.logprob);
    EXPECT_EQ(a.text_offset, b.text_offset);
    EXPECT_EQ(a.top_bytes, b.top_bytes);
  }

  // Runs the request, and then behind each of its tokens what is left of it.
  void ExpectTheRestBehindEveryToken(const Request& request) {
    const auto whole_sink = Submit(request);
    const std::vector<Delta> whole = whole_sink->deltas();
    const Finish end = whole_sink->finish();
    ASSERT_GT(end.usage.completion_tokens, 1);
    Request rest = request;
    for (size_t done = 0; done < whole.size() && !whole[done].tokens.empty(); ++done) {
      SCOPED_TRACE(testing::Message() << "behind " << done + 1 << " tokens");
      ASSERT_EQ(whole[done].tokens.size(), 1U);
      rest.resume_ids.push_back(whole[done].tokens[0].id);
      const auto sink = Submit(rest);
      const std::vector<Delta> deltas = sink->deltas();
      ASSERT_EQ(deltas.size(), whole.size() - done - 1);
      for (size_t i = 0; i < deltas.size(); ++i) {
        const Delta& expected = whole[done + 1 + i];
        EXPECT_EQ(deltas[i].text, expected.text);
        ASSERT_EQ(deltas[i].tokens.size(), expected.tokens.size());
        for (size_t k = 0; k < expected.tokens.size(); ++k) {
          ExpectSame(deltas[i].tokens[k], expected.tokens[k]);
        }
      }
      const Finish finish = sink->finish();
      EXPECT_EQ(finish.reason, end.reason);
      EXPECT_EQ(finish.seed, end.seed);
      EXPECT_EQ(finish.usage.prompt_tokens, end.usage.prompt_tokens);
      EXPECT_EQ(finish.usage.completion_tokens, end.usage.completion_tokens);
    }
    EXPECT_EQ(rest.resume_ids.size(), static_cast<size_t>(end.usage.completion_tokens));
  }

  // Why the request is rejected, or fails.
  Status FailureOf(const Request& request) {
    auto sink = std::make_shared<DeltaSink>();
    const StatusOr<RequestId> id = test_.engine->Submit(request, sink);
    return id.ok() ? sink->error() : id.status();
  }

  TestEngine test_;
};

// A character of three bytes, and text that may be the beginning of a stop string.
TEST_F(LlmEngineResumeTest, TextThatIsHeldBackComesAsInTheWhole) {
  test_.Start();
  Request request = Asked("caf\u00e9 \u20ac5, EN, E, STO. ");
  request.stop = {"END", "STOP", ", caf"};
  request.max_tokens = 40;
  ExpectTheRestBehindEveryToken(request);
}

TEST_F(LlmEngineResumeTest, AStopStringThatTheCutDividesIsFound) {
  test_.Start();
  Request request = Asked("one two three. ");
  request.stop = {"three. one"};
  request.max_tokens = 100;
  ExpectTheRestBehindEveryToken(request);
  // Not before min_tokens.
  request.sampling.min_tokens = 40;
  ExpectTheRestBehindEveryToken(request);
}

// The rest of the text comes with the end, behind the last token.
TEST_F(LlmEngineResumeTest, AnEndAtMaxTokensGivesWhatWasHeldBack) {
  test_.Start();
  Request request = Asked("wait for EN");
  request.stop = {"END"};
  request.max_tokens = 11;
  ExpectTheRestBehindEveryToken(request);
}

TEST_F(LlmEngineResumeTest, EndTokensAndStopTokensEndIt) {
  test_.Start();
  Request request = Asked("");
  request.prompt =
      std::vector<TokenId>{'o', 'k', ByteTokenizer::kControl, '.', ByteTokenizer::kEnd};
  ExpectTheRestBehindEveryToken(request);
  request.stop_token_ids = {'.'};
  ExpectTheRestBehindEveryToken(request);
  request.sampling.min_tokens = 7;  // Both come, and count for nothing.
  ExpectTheRestBehindEveryToken(request);
}

TEST_F(LlmEngineResumeTest, TheLastTokenIsGeneratedAgainAndMustBeTheSame) {
  test_.Start();
  Request request = Asked("abc");
  request.max_tokens = 8;
  request.resume_ids = {'a', 'b', 'c', 'x'};
  const Status status = FailureOf(request);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("resume_ids"));
  request.resume_ids.back() = 'a';
  EXPECT_EQ(Submit(request)->finish().usage.completion_tokens, 8);
}

TEST_F(LlmEngineResumeTest, WhatCannotBeGoneOnWithIsRejected) {
  test_.context_length = 64;
  test_.Start();
  Request good = Asked("abc");
  good.max_tokens = 4;
  good.resume_ids = {'a', 'b'};
  const auto expect = [&](const Request& request, const char* says) {
    const Status status = FailureOf(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << says;
    EXPECT_EQ(status.field(), "resume_ids") << says;
    EXPECT_THAT(status.message(), HasSubstr(says));
  };
  Request bad = good;
  bad.sampling.seed.reset();
  expect(bad, "the seed");
  bad = good;
  bad.prompt_logprobs = 0;
  expect(bad, "prompt_logprobs");
  bad = good;
  bad.session_id = "s";
  expect(bad, "a session");
  bad = good;
  bad.resume_ids = {'a', 'b', 'c', 'a', 'b'};
  expect(bad, "resume_ids has 5 tokens, more than max_tokens (4)");
  bad.max_tokens = 0;
  expect(bad, "more than max_tokens (0)");
  bad = good;
  bad.resume_ids.assign(62, 'a');
  for (const std::optional<int32_t> asked : {std::optional<int32_t>(), {1000}}) {
    bad.max_tokens = asked;
    expect(bad, "the prompt's 3 leave only 61");
  }
  for (const TokenId id : {-1, 258}) {
    bad = good;
    bad.resume_ids = {'a', id};
    expect(bad, "not in the model's vocabulary");
  }
  bad = good;
  bad.resume_ids = {'a', ByteTokenizer::kEnd, 'c'};
  expect(bad, "continues after an end token");
  bad = good;
  bad.stop = {"ab"};
  bad.resume_ids = {'a', 'b', 'c'};
  expect(bad, "or a stop");
  EXPECT_EQ(Submit(good)->finish().usage.completion_tokens, 4);
}

// What another engine generated is neither generated here nor counted as if it were.
TEST_F(LlmEngineResumeTest, CountsWhatThisEngineGenerates) {
  test_.Start();
  Request request = Asked("abcdefgh");
  request.max_tokens = 8;
  request.resume_ids = {'a', 'b', 'c', 'd', 'e'};
  Submit(request)->finish();
  EXPECT_TRUE(Eventually([&] { return test_.engine->Requests().empty(); }));
  const std::string metrics = test_.engine->MetricsText();
  // The fifth is generated again.
  EXPECT_THAT(metrics, HasSubstr("\nropeway_generation_tokens_total 4\n"));
  EXPECT_THAT(metrics, HasSubstr("\nropeway_prompt_tokens_total 8\n"));
  EXPECT_THAT(metrics,
              HasSubstr("ropeway_time_to_first_token_seconds_count{priority=\"medium\"} 1\n"));
}

}  // namespace
}  // namespace ropeway::engine
