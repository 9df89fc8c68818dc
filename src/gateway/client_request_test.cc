#include "gateway/client_request.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/test_scripted_backend.h"
#include "store/session_store.h"

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;

class ClientRequestTest : public testing::Test {
 protected:
  using Given = ClientRequest::Given;

  static Delta Told(const std::vector<TokenId>& ids, std::string text) {
    Delta delta;
    delta.text = std::move(text);
    for (const TokenId id : ids) delta.tokens.emplace_back().id = id;
    return delta;
  }
  void Start(Request request = ScriptedRequest()) {
    sink_ = std::make_shared<RecordingSink>(most_);
    client_ = std::make_unique<ClientRequest>(SinkRequest{std::move(request), sink_});
    client_->arrival = seconds(100);
    client_->seed = 5;
    EXPECT_TRUE(client_->TellAdmitted());
    EXPECT_FALSE(client_->TellAdmitted()) << "once";
    Send(false);
  }
  Request Send(bool resumes) {
    core::StartedBatch batch;
    batch.number = ++batches_;
    return client_->Begin(resumes, batch, seconds(101));
  }
  Given PassOn(Delta delta, base::TimePoint now = seconds(103)) {
    times_ = {};
    return client_->PassOn(std::move(delta), now, &times_);
  }
  std::string Text() const { return sink_->record().text; }

  int most_ = -1;
  uint64_t batches_ = 0;
  std::shared_ptr<RecordingSink> sink_;
  std::unique_ptr<ClientRequest> client_;
  ClientRequest::OutputTimes times_;
};

TEST_F(ClientRequestTest, ItsTimesAreThoseOfItsOutput) {
  Start();
  EXPECT_EQ(PassOn(Told({1}, "a"), seconds(103)), Given::kMore);
  EXPECT_TRUE(times_.first_token);
  EXPECT_EQ(times_.since, seconds(3)) << "since it came";
  PassOn(Told({2}, "b"), seconds(107));
  EXPECT_TRUE(times_.generated && !times_.first_token);
  EXPECT_EQ(times_.since, seconds(4)) << "since the last one";
  const Finish finish = client_->FinishOf(Outcome::Unsaid(), seconds(110));
  EXPECT_EQ(finish.times.queue, seconds(1));
  EXPECT_EQ(finish.times.prefill, seconds(2));
  EXPECT_EQ(finish.times.decode, seconds(4));
  EXPECT_EQ(finish.times.output, seconds(3));
  EXPECT_EQ(finish.seed, 5U);
  EXPECT_EQ(finish.batch_num, 1U);
  EXPECT_EQ(finish.usage.completion_tokens, 2);
  EXPECT_TRUE(finish.usage.estimated);
}

TEST_F(ClientRequestTest, ItGoesOnFromItsIdsAndNothingIsToldTwice) {
  Start();
  PassOn(Told({1, 2}, "ab"));
  PassOn(Told({}, "c"));  // Was held back, and comes again.
  const Request rest = Send(true);
  EXPECT_EQ(rest.resume_ids, (std::vector<TokenId>{1, 2}));
  PassOn(Told({}, "c"));
  EXPECT_EQ(PassOn(Told({3}, "d")), Given::kMore);
  EXPECT_EQ(Text(), "abcd");
  EXPECT_EQ(client_->FinishOf(Outcome::Unsaid(), seconds(110)).batch_num, 1U)
      << "of the first time";
}

TEST_F(ClientRequestTest, ComputedAnewItIsPassedOverUntilWhereTheSinkHasIt) {
  Start();
  PassOn(Told({1, 2}, "ab"));
  EXPECT_TRUE(Send(false).resume_ids.empty());
  EXPECT_TRUE(client_->replays());
  PassOn(Told({1}, "a"));
  EXPECT_FALSE(times_.generated);
  PassOn(Told({2}, "b"));
  EXPECT_FALSE(client_->replays());
  EXPECT_EQ(PassOn(Told({3}, "c")), Given::kMore);
  EXPECT_EQ(Text(), "abc");
  Send(false);
  EXPECT_EQ(PassOn(Told({7, 8, 9}, "xyz")), Given::kDiffers);
  EXPECT_EQ(Text(), "abc");
}

TEST_F(ClientRequestTest, ThoughtsAndCallsAreNotToldTwice) {
  for (const bool resumes : {true, false}) {
    Start();
    Delta thought = Told({1}, "");
    thought.reasoning = "hm";
    EXPECT_EQ(PassOn(thought), Given::kMore);
    EXPECT_TRUE(times_.generated);
    Delta begun = Told({2}, "so ");
    begun.tool_calls = {{0, "a", "get", "{\"x"}};
    PassOn(begun);
    Delta held = Told({}, "");  // It comes again with the next token.
    held.tool_calls = {{0, "", "", "\":"}};
    PassOn(held);
    Send(resumes);
    if (!resumes) {  // In another run the call has another id.
      EXPECT_TRUE(client_->replays());
      begun.tool_calls[0].id = "z";
      PassOn(thought);
      PassOn(begun);
      EXPECT_FALSE(times_.generated);
    }
    Delta more = Told({3}, "");
    more.tool_calls = {{0, "", "", "\":1}"}, {1, "b", "now", "{}"}};
    EXPECT_EQ(PassOn(more), Given::kMore);
    EXPECT_EQ(Shown(sink_->record().answer), "hm|so |a get({\"x\":1})|b now({})") << resumes;
  }
  Send(false);
  Delta other = Told({1, 2, 3}, "hmso ");  // The same words, but no thoughts.
  other.tool_calls = {{0, "a", "get", "{\"x\":1}"}, {1, "b", "now", "{}"}};
  EXPECT_EQ(PassOn(other), Given::kDiffers);
}

TEST_F(ClientRequestTest, WhatItMeasuresIsAllThatIsSaid) {
  Start();
  Delta delta;
  delta.reasoning = std::string(8, 'r');
  delta.tool_calls = {{0, "id", "call", std::string(8, 'a')}};
  EXPECT_EQ(client_->Measure(delta, true).tokens, 5);
  EXPECT_FALSE(client_->Measure(delta, true).ids_known) << "no id accounts for it";
  PassOn(Told({1}, ""));
  EXPECT_TRUE(client_->Measure(delta, true).ids_known) << "it was held back";
}

TEST_F(ClientRequestTest, ACallThatItsSinkCannotPlaceIsNotTold) {
  const auto pass = [&](const ToolCallDelta& call) {
    Delta delta = Told({1}, "");
    delta.tool_calls = {call};
    return PassOn(delta);
  };
  const ToolCallDelta misplaced[] = {{1, "a", "f", ""},
                                     {0, "", "", "{}"},
                                     {-1, "a", "f", ""},
                                     {-1, "", "", "{}"},
                                     {INT32_MAX, "a", "f", ""}};
  for (const ToolCallDelta& call : misplaced) {
    Start();
    EXPECT_EQ(pass(call), Given::kDiffers) << call.index;
    EXPECT_EQ(sink_->record().deltas, 0);
  }
  Start();
  EXPECT_EQ(pass({0, "a", "f", "{"}), Given::kMore);
  EXPECT_EQ(pass({0, "", "", "}"}), Given::kMore);
  EXPECT_EQ(pass({0, "a", "f", "{}"}), Given::kDiffers) << "it began before";
  // Where the beginning came from elsewhere, the sink has calls that are not known here.
  Request request = ScriptedRequest();
  request.resume_ids = {7};
  Start(request);
  EXPECT_EQ(pass({3, "", "", "}"}), Given::kMore);
}

TEST_F(ClientRequestTest, ItIsCompleteWithWhatWasAskedFor) {
  Request request = ScriptedRequest();
  request.max_tokens = 2;
  Start(request);
  EXPECT_EQ(PassOn(Told({1, 2, 3}, "abc")), Given::kComplete);
  EXPECT_EQ(sink_->record().tokens.size(), 2U);
}

TEST_F(ClientRequestTest, ASinkThatWantsNoMoreEndsItAsCancelled) {
  most_ = 1;
  Start();
  EXPECT_EQ(PassOn(Told({1}, "a")), Given::kGone);
  client_->TellCancelled(seconds(110));
  EXPECT_TRUE(client_->told());
  const RecordingSink::Record record = sink_->record();
  EXPECT_EQ(record.ends, 1);
  ASSERT_TRUE(record.finish.has_value());
  EXPECT_EQ(record.finish->reason, FinishReason::kCancelled);
}

TEST_F(ClientRequestTest, WhatIsLeftOfItsTimeGoesAlong) {
  Start();
  client_->deadline = seconds(101) + std::chrono::milliseconds(250);
  EXPECT_EQ(Send(false).timeout, std::chrono::milliseconds(250));
  client_->deadline = seconds(90);
  EXPECT_EQ(Send(false).timeout, std::chrono::milliseconds(1)) << "never none";
}

TEST_F(ClientRequestTest, ATurnGoesOnFromWhatWasSaidAndLeavesMore) {
  const auto sessions = *store::OpenSessionStore(SessionOptions());
  Start(ScriptedRequest("upon"));
  client_->turn = std::make_unique<service::Turn>();
  client_->turn->turn = *sessions->Begin("", "s");
  store::SessionState before;
  before.kind = store::SessionState::Kind::kText;
  before.tail = "Once ";
  before.tokens = 3;
  ASSERT_TRUE(client_->GoOn(before).ok());
  EXPECT_TRUE(client_->keeps_turn());
  EXPECT_EQ(std::get<std::string>(Send(false).prompt), "Once upon");
  PassOn(Told({1, 2}, " a time"));
  Finish end;
  end.usage = {9, 2, 0};
  const store::SessionState next = client_->NextState(end);
  EXPECT_EQ(next.tail, "Once upon a time");
  EXPECT_EQ(next.tokens, 11);
  EXPECT_EQ(client_->FinishOf(end, seconds(110)).session_tokens, 3);
  client_.reset();  // Before its session's store.
}

}  // namespace
}  // namespace ropeway::gateway
