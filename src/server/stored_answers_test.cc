#include "server/stored_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/test_stored.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string StatusIn(const std::string& body) { return json::parse(body).value("status", ""); }
std::string ContentIn(const std::string& body) {
  return json::parse(body).at("choices").at(0).at("message").at("content").get<std::string>();
}

// "w0 w1 ... "
std::string Words(int count) {
  std::string words;
  for (int i = 0; i < count; ++i) words += fmt::format("w{} ", i);
  return words;
}

// All that a watcher takes until the end, whose status it adds.
std::string WatchToEnd(const std::shared_ptr<StoredRun>& run) {
  std::atomic<int> wakes{0};
  RunWatcher watcher(run, false, false, [&wakes] { ++wakes; });
  std::string all;
  EXPECT_TRUE(Eventually([&] {
    for (size_t i = 0; i < watcher.size(); ++i) {
      if (watcher.ended(i)) continue;
      const AnswerSource::Output output = watcher.Take(i);
      for (const Delta& delta : output.deltas) all += delta.text;
      if (output.end) all += output.end->status.ok() ? "." : "!" + output.end->status.message();
    }
    for (size_t i = 0; i < watcher.size(); ++i) {
      if (!watcher.ended(i)) return false;
    }
    return true;
  }));
  return all;
}

TEST_F(StoredAnswersTest, AnAnswerIsShownWithoutItsClient) {
  const std::string id = Begin(R"(,"max_tokens":3)")->request().id;
  const std::string body = ShownAtEnd(id);
  EXPECT_EQ(ContentIn(body), "w0 w1 w2 ");
  EXPECT_EQ(json::parse(body)["id"], id);
  EXPECT_EQ(StatusIn(body), "incomplete");
  EXPECT_EQ(json::parse(body)["ropeway"]["seed"], 5);
  EXPECT_THAT(Shown(id, "another"), HasSubstr("There is no answer with the id"));
  Start();
  EXPECT_EQ(Shown(id), body);
}

TEST_F(StoredAnswersTest, WhatIsUnderWayHasABodyOfItsOwn) {
  backend_.set_script(EndlessScript);
  const std::shared_ptr<StoredRun> run = Begin();
  const std::string& id = run->request().id;
  ASSERT_TRUE(Eventually([&] { return run->pending() == api::AnswerState::kInProgress; }));
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  EXPECT_EQ(answers().Pending("t", id), nullptr) << "made for nobody";
  EXPECT_EQ(StatusIn(Shown(id)), "in_progress");
  const std::shared_ptr<const std::string> body = answers().Pending("t", id);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ(*body, Shown(id));
  EXPECT_EQ(answers().Pending("t", id), body) << "made once";
  EXPECT_EQ(answers().Pending("another", id), nullptr);
  ASSERT_TRUE(Cancel(id).ok());
  EXPECT_EQ(StatusIn(ShownAtEnd(id)), "cancelled");
  EXPECT_TRUE(Cancel(id).ok());  // Once more changes nothing.
  EXPECT_EQ(StatusIn(Shown(id)), "cancelled");
  Start();
  EXPECT_EQ(StatusIn(Shown(id)), "cancelled");
}

TEST_F(StoredAnswersTest, WatchersGetAllFromTheBeginning) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::shared_ptr<StoredRun> run = Begin(R"(,"max_tokens":600)");
  ASSERT_TRUE(backend_.WaitDeltas(20));
  EXPECT_EQ(WatchToEnd(run), Words(600) + ".");
  StatusOr<StoredAnswers::Watched> again = answers().Watch("t", run->request().id);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(WatchToEnd(again->run), Words(600) + ".");
  EXPECT_EQ(answers().Watch("another", run->request().id).status().code(), StatusCode::kNotFound);
}

TEST_F(StoredAnswersTest, AnAnswerGoesOnFromItsIdsAfterAKill) {
  backend_.set_models(ModelsWithDigest("d1"));
  backend_.set_step_pause(std::chrono::milliseconds(5));
  const std::string id = Begin(R"(,"max_tokens":400,"temperature":0.5)")->request().id;
  ASSERT_TRUE(Eventually([&] { return SavedIds(id) >= 64; }));
  StartAfterKill();
  backend_.set_step_pause({});
  EXPECT_EQ(StatusIn(Shown(id)), "in_progress");
  answers().Resume();
  EXPECT_EQ(ContentIn(ShownAtEnd(id)), Words(400));
  const Request last = backend_.submitted().back();
  EXPECT_GE(last.resume_ids.size(), 64U);
  EXPECT_LT(last.resume_ids.size(), 400U);
  EXPECT_EQ(last.sampling.seed, 5U);
  EXPECT_NE(last.sampling.given & SamplingParams::kSeed, 0U) << "a gateway passes it on";
  EXPECT_EQ(last.tenant, "t");
  EXPECT_EQ(last.model, "fake-model");
}

TEST_F(StoredAnswersTest, WhereBitsMayDifferItBeginsAnew) {
  backend_.set_models(ModelsWithDigest("d1"));
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string id = Begin(R"(,"max_tokens":300)")->request().id;
  ASSERT_TRUE(backend_.WaitDeltas(150));
  StartAfterKill();
  backend_.set_models(ModelsWithDigest("d2"));
  answers().Resume();
  EXPECT_EQ(ContentIn(ShownAtEnd(id)), Words(300));
  EXPECT_TRUE(backend_.submitted().back().resume_ids.empty());
}

TEST_F(StoredAnswersTest, EveryChoiceGoesOnWhereItWas) {
  backend_.set_models(ModelsWithDigest("d1"));
  backend_.set_step_pause(std::chrono::milliseconds(5));
  const std::string id = Begin(R"(,"max_tokens":200,"n":3)")->request().id;
  ASSERT_TRUE(Eventually([&] { return SavedIds(id) > 0; }));
  StartAfterKill();
  backend_.set_step_pause({});
  answers().Resume();
  const json body = json::parse(ShownAtEnd(id));
  ASSERT_EQ(body["choices"].size(), 3U);
  for (const json& choice : body["choices"]) EXPECT_EQ(choice["message"]["content"], Words(200));
}

TEST_F(StoredAnswersTest, ParkingKeepsWhatThereIs) {
  backend_.set_models(ModelsWithDigest("d1"));
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::shared_ptr<StoredRun> run = Begin(R"(,"max_tokens":300)");
  ASSERT_TRUE(backend_.WaitDeltas(100));
  answers().Park();
  EXPECT_THAT(WatchToEnd(run), HasSubstr("It goes on with this answer when it starts again"));
  StoredRequest late;
  EXPECT_EQ(TryBegin("", late).status().code(), StatusCode::kUnavailable);
  Start();
  answers().Resume();
  EXPECT_EQ(ContentIn(ShownAtEnd(run->request().id)), Words(300));
  EXPECT_GE(backend_.submitted().back().resume_ids.size(), 99U);  // All that it had.
}

TEST_F(StoredAnswersTest, AStreamThatIsCutByTheServersStopGoesOn) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  StoredRequest request;
  request.tenant = "t";
  StatusOr<std::shared_ptr<StoredRun>> run =
      TryBegin(R"(,"stream":true,"max_tokens":200)", request);
  ASSERT_TRUE(run.ok());
  RunWatcher watcher(*run, false, true, [] {});
  ASSERT_TRUE(backend_.WaitDeltas(20));
  answers().Park();
  ASSERT_TRUE(backend_.WaitDeltas(40));  // It may end in the time that is left.
  watcher.Cancel();
  EXPECT_TRUE(backend_.WaitIdle());
  Start();
  answers().Resume();
  EXPECT_EQ(ContentIn(ShownAtEnd((*run)->request().id)), Words(200));
}

TEST_F(StoredAnswersTest, WhatIsCancelledWhileTheServerStopsDoesNotGoOn) {
  backend_.set_script(EndlessScript);
  const std::shared_ptr<StoredRun> run = Begin();
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  ASSERT_TRUE(Cancel(run->request().id).ok());
  answers().Park();
  Start();
  EXPECT_TRUE(process_->objects->Opened().empty());
  EXPECT_EQ(StatusIn(Shown(run->request().id)), "cancelled");
}

// A gateway's only backend may be away for a while.
TEST_F(StoredAnswersTest, WhatLosesItsBackendGoesOnElsewhere) {
  std::atomic<int> calls{0};
  backend_.set_step_pause(std::chrono::milliseconds(1));
  backend_.set_script([&calls](const Request&) {
    FakeScript script;
    const int call = ++calls;
    if (call <= 2) script.fail_after = 10 * call;
    script.failure = {StatusCode::kUnavailable, "no backend is available"};
    return script;
  });
  backend_.set_hold_failures(true);
  const std::shared_ptr<StoredRun> run = Begin(R"(,"max_tokens":60)");
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  backend_.set_hold_failures(false);
  EXPECT_EQ(WatchToEnd(run), Words(60) + ".");
  EXPECT_EQ(ContentIn(ShownAtEnd(run->request().id)), Words(60));
  EXPECT_EQ(calls, 3);
}

TEST_F(StoredAnswersTest, WhatWaitsToBeResumedCanBeCancelled) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string id = Begin(R"(,"max_tokens":300)")->request().id;
  ASSERT_TRUE(backend_.WaitDeltas(50));
  StartAfterKill();
  backend_.set_rejection({StatusCode::kUnavailable, "No backend is there."});
  answers().Resume();
  ASSERT_TRUE(Cancel(id).ok());
  EXPECT_EQ(StatusIn(Shown(id)), "cancelled");
  backend_.set_rejection({});
  Start();
  EXPECT_EQ(StatusIn(Shown(id)), "cancelled");
}

TEST_F(StoredAnswersTest, AnOpenAnswerThatIsNotGoneOnWithYetCannotBeCancelled) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string id = Begin(R"(,"max_tokens":300)")->request().id;
  ASSERT_TRUE(backend_.WaitDeltas(50));
  StartAfterKill();
  EXPECT_EQ(Cancel(id).code(), StatusCode::kUnavailable);
  answers().Resume();
  EXPECT_EQ(ContentIn(ShownAtEnd(id)), Words(300));
}

TEST_F(StoredAnswersTest, WhatWasSaidOfACancelledAnswerIsStreamedAgain) {
  backend_.set_script(EndlessScript);
  const std::shared_ptr<StoredRun> run = Begin();
  ASSERT_TRUE(backend_.WaitDeltas(30));
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  ASSERT_TRUE(Cancel(run->request().id).ok());
  const std::string live = WatchToEnd(run);
  EXPECT_THAT(live, testing::EndsWith("!The answer was cancelled."));
  EXPECT_THAT(live, HasSubstr("w20 "));
  Start();
  StatusOr<StoredAnswers::Watched> again = answers().Watch("t", run->request().id);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(WatchToEnd(again->run), live);
}

TEST_F(StoredAnswersTest, ABusyBackendIsAskedAgain) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string id = Begin(R"(,"max_tokens":300)")->request().id;
  ASSERT_TRUE(backend_.WaitDeltas(50));
  StartAfterKill();
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  answers().Resume();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(StatusIn(Shown(id)), "queued");
  backend_.set_rejection({});
  EXPECT_EQ(ContentIn(ShownAtEnd(id)), Words(300));
}

// Whether it says so at once or later.
TEST_F(StoredAnswersTest, ABackendWithoutRoomIsWaitedFor) {
  const Status full(StatusCode::kResourceExhausted, "The queue is full.");
  for (const bool later : {false, true}) {
    if (later) {
      backend_.set_script([full](const Request&) {
        FakeScript script;
        script.fail_after = 0;
        script.fail_unadmitted = true;
        script.failure = full;
        return script;
      });
    } else {
      backend_.set_rejection(full);
    }
    std::vector<std::string> ids;
    for (int i = 0; i < 12; ++i) {
      const std::shared_ptr<StoredRun> run = Begin(R"(,"max_tokens":3)");
      ASSERT_NE(run, nullptr);
      ids.push_back(run->request().id);
      ASSERT_TRUE(Eventually([&] { return run->recorded(); })) << i;
    }
    for (const std::string& id : ids) EXPECT_EQ(StatusIn(Shown(id)), "queued");
    ASSERT_TRUE(Cancel(ids.back()).ok());
    EXPECT_EQ(StatusIn(Shown(ids.back())), "cancelled");
    ids.pop_back();
    const size_t tried = backend_.submitted().size();
    EXPECT_LE(tried, 40U + 10U * (later ? 1 : 0)) << "a few are tried, after pauses that grow";
    backend_.set_script([](const Request&) { return FakeScript(); });
    backend_.set_rejection({});
    for (const std::string& id : ids) EXPECT_EQ(ContentIn(ShownAtEnd(id)), Words(3));
  }
}

TEST_F(StoredAnswersTest, AnAnswerInTheForegroundIsTurnedAwayAtOnce) {
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  StoredRequest request;
  request.tenant = "t";
  EXPECT_EQ(TryBegin("", std::move(request)).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(StoredAnswersTest, WhatIsDeletedIsGone) {
  backend_.set_script(EndlessScript);
  const std::shared_ptr<StoredRun> run = Begin();
  const std::string& id = run->request().id;
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  std::atomic<bool> done{false};
  EXPECT_EQ(answers().Delete("another", id, [](const Status&) {}).code(), StatusCode::kNotFound);
  ASSERT_TRUE(answers().Delete("t", id, [&](const Status& status) { done = status.ok(); }).ok());
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  EXPECT_THAT(WatchToEnd(run), HasSubstr("The answer was deleted."));
  EXPECT_THAT(Shown(id), HasSubstr("There is no answer"));
  EXPECT_EQ(answers().Delete("t", id, [](const Status&) {}).code(), StatusCode::kNotFound);
  Start();
  EXPECT_TRUE(process_->objects->Opened().empty());
}

TEST_F(StoredAnswersTest, AFailureIsKept) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 2;
    script.failure = {StatusCode::kInternal, "The disk of the model broke."};
    return script;
  });
  backend_.set_hold_failures(true);
  const std::shared_ptr<StoredRun> run = Begin();
  ASSERT_TRUE(Eventually([&] { return run->recorded(); }));
  backend_.set_hold_failures(false);
  const json body = json::parse(ShownAtEnd(run->request().id));
  EXPECT_EQ(body["status"], "failed");
  EXPECT_EQ(body["error"]["message"], "The disk of the model broke.");
}

// An answer in the background, or a stream, has no id that left before its record is in the log.
TEST_F(StoredAnswersTest, NothingIsSeenBeforeItIsRecorded) {
  control_->CloseGate();
  const std::shared_ptr<StoredRun> run = Begin(R"(,"max_tokens":3)");
  ASSERT_TRUE(backend_.WaitIdle());
  EXPECT_FALSE(run->Look(0).admitted);
  EXPECT_FALSE(run->Look(0).ended);
  EXPECT_EQ(answers().Pending("t", run->request().id), nullptr);
  control_->OpenGate();
  EXPECT_TRUE(Eventually([&] { return run->Look(0).ended; }));
  EXPECT_EQ(ContentIn(ShownAtEnd(run->request().id)), Words(3));
}

TEST_F(StoredAnswersTest, AFullDiskRejectsWhatIsNewAndKeepsWhatWasAccepted) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string accepted = Begin(R"(,"max_tokens":200)")->request().id;
  ASSERT_TRUE(backend_.WaitDeltas(10));
  control_->disk_full = true;
  const std::shared_ptr<StoredRun> rejected = Begin(R"(,"max_tokens":2)");
  EXPECT_THAT(WatchToEnd(rejected), HasSubstr("no space left on device"));
  EXPECT_THAT(Shown(rejected->request().id), HasSubstr("There is no answer"));
  EXPECT_EQ(ContentIn(ShownAtEnd(accepted)), Words(200));  // From memory.
  control_->disk_full = false;
  ASSERT_TRUE(Eventually([&] { return process_->objects->CheckRoom("t", 100).ok(); }));
  Start();
  EXPECT_EQ(ContentIn(Shown(accepted)), Words(200));
}

// An answer whose id no client has is not kept.
TEST_F(StoredAnswersTest, AWholeAnswerEndsWithItsConnection) {
  backend_.set_script(EndlessScript);
  StoredRequest request;
  request.tenant = "t";
  StatusOr<std::shared_ptr<StoredRun>> run = TryBegin("", request);
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(backend_.WaitDeltas(5));
  RunWatcher(*run, true, true, [] {}).Cancel();
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_TRUE(Eventually([&] { return (*run)->settled(); }));
  EXPECT_THAT(Shown((*run)->request().id), HasSubstr("There is no answer"));
  EXPECT_TRUE(process_->objects->List(nullptr).empty());
}

TEST_F(StoredAnswersTest, OnlyTheBackgroundCanBeCancelled) {
  backend_.set_script(EndlessScript);
  StoredRequest request;
  request.tenant = "t";
  StatusOr<std::shared_ptr<StoredRun>> run = TryBegin(R"(,"stream":true)", request);
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(Eventually([&] { return (*run)->recorded(); }));
  EXPECT_THAT(Cancel((*run)->request().id).message(),
              HasSubstr("was not asked for with background: true"));
  RunWatcher(*run, false, true, [] {}).Cancel();
  EXPECT_EQ(StatusIn(ShownAtEnd((*run)->request().id)), "cancelled");
}

TEST_F(StoredAnswersTest, AConversationHasOneTurnAtATime) {
  StatusOr<StoredAnswers::ConversationHold> hold = answers().HoldConversation("t", "conv_1");
  ASSERT_TRUE(hold.ok());
  const Status busy = answers().HoldConversation("t", "conv_1").status();
  EXPECT_STREQ(busy.api_code(), "conversation_busy");
  EXPECT_EQ(busy.field(), "conversation");
  EXPECT_TRUE(answers().HoldConversation("another", "conv_1").ok());
  hold = StoredAnswers::ConversationHold();
  EXPECT_TRUE(answers().HoldConversation("t", "conv_1").ok());
}

}  // namespace
}  // namespace ropeway::server
