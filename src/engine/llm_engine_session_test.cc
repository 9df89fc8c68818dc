// Sessions in a whole engine of fakes. The echo executor generates the prompt again, so with enough
// tokens an answer's text is the very prompt that the session's ids made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine_options.h"
#include "engine/llm_engine.h"
#include "engine/test_fakes.h"
#include "store/session.h"
#include "store/test_faulty_state_db.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

class SessionEngineTest : public testing::Test {
 protected:
  void Start() {
    test_.engine.reset();
    test_.state = std::make_unique<store::FaultyStateDb>(store_);
    test_.Start();
  }
  ~SessionEngineTest() override { store_->OpenGate(); }

  static Request Turn(const std::string& session, const std::string& text, int32_t max_tokens) {
    Request request;
    request.session_id = session;
    request.prompt = text;
    request.max_tokens = max_tokens;
    return request;
  }
  static Request ChatTurn(const std::string& session, const std::string& text, int32_t max_tokens) {
    Request request = Turn(session, "", max_tokens);
    request.prompt = Chat{.messages = {{"user", text}}};
    return request;
  }

  std::shared_ptr<TestSink> Submit(Request request,
                                   std::shared_ptr<TestSink> sink = std::make_shared<TestSink>()) {
    const StatusOr<RequestId> id = test_.engine->Submit(std::move(request), sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    id_ = id.ok() ? *id : 0;
    return sink;
  }
  TestSink::Seen Run(Request request) { return Submit(std::move(request))->WaitEnd(); }

  SessionInfo Info(const std::string& id) const {
    for (const SessionInfo& info : test_.engine->Sessions("")) {
      if (info.id == id) return info;
    }
    return {};
  }

  bool Metric(const std::string& line) const {
    return test_.engine->MetricsText().find("\n" + line + "\n") != std::string::npos;
  }

  TestEngine test_;
  std::shared_ptr<store::StateDbControl> store_ = std::make_shared<store::StateDbControl>();
  RequestId id_ = 0;
};

TEST_F(SessionEngineTest, TextTurnsGoOnFromAllThatWasSaidAlsoAfterARestart) {
  Start();
  const TestSink::Seen first = Run(Turn("s", "ab", 3));
  EXPECT_EQ(first.text, "aba");
  EXPECT_EQ(first.finish->session_tokens, 0);
  const TestSink::Seen second = Run(Turn("s", "X", 6));
  EXPECT_EQ(second.text, "ababaX");
  EXPECT_EQ(second.finish->session_tokens, 5);
  EXPECT_EQ(second.prompt_tokens, 6);
  Start();
  EXPECT_EQ(Info("s").tokens, 12);
  EXPECT_EQ(Info("s").turns, 2);
  Request ids = Turn("s", "", 14);
  ids.prompt = std::vector<TokenId>{'-', '!'};
  EXPECT_EQ(Run(ids).text, "ababaXababaX-!");
  EXPECT_EQ(Run(Turn("other", "q", 1)).finish->session_tokens, 0);
}

// A tokenizer of words writes a space before a text's beginning, which a later turn is not.
TEST_F(SessionEngineTest, NoSpaceIsWrittenBeforeALaterTurnsText) {
  tokenizer::Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a"};
  vocabulary.types = {2, 3, 3, 1, 1, 1};
  vocabulary.scores = {0, 0, 0, -2, -2, -1};
  vocabulary.eos = 2;
  vocabulary.space_prefix = tokenizer::SpacePrefix::kEach;
  auto made = tokenizer::MakeTokenizer(vocabulary);
  ASSERT_TRUE(made.ok()) << made.status().message();
  test_.tokenizer = *std::move(made);
  Start();
  EXPECT_EQ(Run(Turn("s", "a", 1)).text, " a");
  EXPECT_EQ(Run(Turn("s", "a", 3)).text, " a aa");
}

TEST_F(SessionEngineTest, ATurnWithoutNewTextGoesOnWhereTheAnswerWasCut) {
  Start();
  Run(Turn("s", "abc", 1));
  EXPECT_EQ(Run(Turn("s", "", 4)).text, "abca");
}

TEST_F(SessionEngineTest, ChatTurnsAreTheNewMessagesOnly) {
  // Every message ends as the byte fake's end token reads.
  test_.render_chat = [](const Chat& chat, const StoppedFn&) {
    std::string text;
    for (const ChatMessage& message : chat.messages) {
      text += message.role + ":" + message.content + ";";
    }
    return StatusOr(tokenizer::RenderedChat{text + "assistant:"});
  };
  Start();
  EXPECT_EQ(Run(ChatTurn("s", "hi", 3)).text, "use");
  const std::string whole = "user:hi;assistant:use;user:yo;assistant:";
  const TestSink::Seen second = Run(ChatTurn("s", "yo", static_cast<int32_t>(whole.size())));
  EXPECT_EQ(second.text, whole);
  EXPECT_TRUE(Metric("ropeway_session_turns_total{prompt=\"begun\"} 1"));
  EXPECT_TRUE(Metric("ropeway_session_turns_total{prompt=\"continued\"} 1"));
  EXPECT_TRUE(Metric("ropeway_session_turns_total{prompt=\"reencoded\"} 0"));
}

TEST_F(SessionEngineTest, AChatWhoseTemplateChangesItsHistoryIsEncodedAnew) {
  // Shows only the last two messages.
  test_.render_chat = [](const Chat& chat, const StoppedFn&) {
    const std::vector<ChatMessage>& messages = chat.messages;
    std::string text;
    for (size_t i = messages.size() < 2 ? 0 : messages.size() - 2; i < messages.size(); ++i) {
      text += messages[i].content + ";";
    }
    return StatusOr(tokenizer::RenderedChat{std::move(text)});
  };
  Start();
  EXPECT_EQ(Run(ChatTurn("s", "hi", 2)).text, "hi");
  EXPECT_EQ(Run(ChatTurn("s", "yo", 6)).text, "hi;yo;");
  EXPECT_TRUE(Metric("ropeway_session_turns_total{prompt=\"reencoded\"} 1"));
}

TEST_F(SessionEngineTest, AStopStringsTokensAreNotStored) {
  Start();
  Request request = Turn("s", "abcd", 100);
  request.stop = {"cd"};
  EXPECT_EQ(Run(request).text, "ab");
  EXPECT_EQ(Info("s").tokens, 6);
  EXPECT_EQ(Run(Turn("s", "Z", 7)).text, "abcdabZ");
}

TEST_F(SessionEngineTest, ATurnThatIsCancelledOrFailsLeavesTheSessionAsItWas) {
  Start();
  Run(Turn("s", "ab", 2));
  auto reader_gone = std::make_shared<TestSink>(TestSink::OnDeltaDoes::kStop, 3);
  EXPECT_EQ(Submit(Turn("s", "gone", 2000), reader_gone)->WaitEnd().finish->reason,
            FinishReason::kCancelled);
  EXPECT_EQ(Info("s").tokens, 4);

  test_.control->CloseGate();
  auto cancelled = Submit(Turn("s", "cancelled", 2000));
  EXPECT_TRUE(test_.engine->Cancel(id_).ok());
  test_.control->OpenGate();
  cancelled->WaitEnd();

  test_.control->no_logit_for = id_ + 1;
  const auto failed = Submit(Turn("s", "failed", 10))->WaitEnd();
  EXPECT_FALSE(failed.error.ok());

  EXPECT_EQ(Info("s").turns, 1);
  EXPECT_EQ(Run(Turn("s", "X", 5)).text, "ababX");
}

TEST_F(SessionEngineTest, AnUnfinishedFirstTurnLeavesNoSession) {
  Start();
  auto reader_gone = std::make_shared<TestSink>(TestSink::OnDeltaDoes::kStop, 1);
  Submit(Turn("s", "gone", 2000), reader_gone)->WaitEnd();
  EXPECT_TRUE(test_.engine->Sessions("").empty());
  EXPECT_EQ(Run(Turn("s", "new", 3)).text, "new");
}

TEST_F(SessionEngineTest, OneTurnAtATimeAndTheNextMayComeRightAfterTheEnd) {
  Start();
  test_.control->CloseGate();
  auto first = Submit(Turn("s", "a", 1));
  const StatusOr<RequestId> second =
      test_.engine->Submit(Turn("s", "b", 1), std::make_shared<TestSink>());
  EXPECT_EQ(second.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(second.status().field(), "session_id");
  EXPECT_THAT(second.status().message(), HasSubstr("'s' already has a turn in progress"));
  test_.control->OpenGate();
  first->WaitEnd();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(Run(Turn("s", "b", 1)).ends, 1) << i;
  EXPECT_EQ(Info("s").turns, 51);
}

TEST_F(SessionEngineTest, ATurnCancelledWhileItIsEncodedFreesItsSessionAtItsEnd) {
  Start();
  for (int i = 0; i < 5; ++i) {
    auto slow = Submit(Turn("s", "SLOW", 1));
    EXPECT_TRUE(test_.engine->Cancel(id_).ok());
    EXPECT_EQ(slow->WaitEnd().error.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(Run(Turn("s", "x", 1)).text, "x");
}

TEST_F(SessionEngineTest, TheEndWaitsForTheStoreAndNobodyElseDoes) {
  Start();
  store_->CloseGate();
  auto kept = Submit(Turn("s", "ab", 2));
  ASSERT_TRUE(kept->WaitDeltas(2));
  ASSERT_TRUE(Eventually([this] { return store_->writes > 0; }));
  EXPECT_EQ(Run(Turn("", "others stream on", 100)).tokens.size(), 100U);
  EXPECT_EQ(kept->Get().ends, 0);
  // The other one leaves the list a moment after its end was told.
  EXPECT_TRUE(Eventually([this] { return test_.engine->Requests().size() == 1; }));
  store_->OpenGate();
  EXPECT_EQ(kept->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(Info("s").durable);
}

TEST_F(SessionEngineTest, ATurnThatEndsByAStopStringIsToldOnce) {
  Start();
  store_->CloseGate();
  Request request = Turn("s", "abcd", 100);
  request.stop = {"c"};
  auto kept = Submit(request);
  ASSERT_TRUE(Eventually([this] { return store_->writes > 0; }));
  // The engine has long taken its blocks back.
  EXPECT_EQ(Run(Turn("", "others", 50)).tokens.size(), 50U);
  EXPECT_TRUE(test_.engine->Cancel(id_ - 1).ok());
  store_->OpenGate();
  EXPECT_EQ(kept->WaitEnd().finish->reason, FinishReason::kStop);
}

TEST_F(SessionEngineTest, AFullDiskEndsNoTurnAndRejectsNewOnes) {
  Start();
  store_->disk_full = true;
  const TestSink::Seen seen = Run(Turn("s", "ab", 2));
  EXPECT_EQ(seen.text, "ab");
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
  EXPECT_FALSE(Info("s").durable);
  EXPECT_TRUE(Metric("ropeway_session_write_errors_total 1"));
  EXPECT_TRUE(Metric("ropeway_sessions_unwritten 1"));
  for (const char* session : {"s", "new"}) {
    const auto rejected = test_.engine->Submit(Turn(session, "X", 5), std::make_shared<TestSink>());
    EXPECT_EQ(rejected.status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(rejected.status().message(),
              "sessions cannot be stored now: no space left on device");
  }
  EXPECT_EQ(Run(Turn("", "others", 5)).tokens.size(), 5U);
  store_->disk_full = false;
  EXPECT_TRUE(Eventually([this] { return Info("s").durable; }));
  EXPECT_EQ(Run(Turn("s", "X", 5)).text, "ababX");
}

TEST_F(SessionEngineTest, AnEngineThatStopsTellsTheEndOfATurnThatIsBeingStored) {
  Start();
  store_->CloseGate();
  auto kept = Submit(Turn("s", "ab", 2));
  ASSERT_TRUE(Eventually([this] { return store_->writes > 0; }));
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    store_->OpenGate();
  });
  test_.engine.reset();
  opener.join();
  EXPECT_EQ(kept->WaitEnd().finish->reason, FinishReason::kLength);
  Start();
  EXPECT_EQ(Info("s").tokens, 4);
}

TEST_F(SessionEngineTest, ATurnThatDoesNotFitSaysSoAndTheSessionStays) {
  test_.context_length = 32;
  Start();
  Run(Turn("s", "0123456789", 10));
  const TestSink::Seen long_prompt = Run(Turn("s", "abcdefghijklmno", 1));
  EXPECT_EQ(long_prompt.error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(long_prompt.error.message(),
              HasSubstr("the session 's' with this turn (35 tokens) plus at least one token to "
                        "generate exceeds the model's limit of 32 tokens"));
  const TestSink::Seen lowered = Run(Turn("s", "ab", 11));
  ASSERT_TRUE(lowered.finish.has_value()) << lowered.error.message();
  EXPECT_EQ(lowered.finish->reason, FinishReason::kLength);
  EXPECT_EQ(lowered.finish->max_tokens, 10) << "what the history and the turn leave";
}

TEST_F(SessionEngineTest, ChatAndTextDoNotMix) {
  test_.render_chat = [](const Chat&, const StoppedFn&) {
    return StatusOr(tokenizer::RenderedChat{"chat"});
  };
  Start();
  Run(Turn("text", "a", 1));
  EXPECT_THAT(Run(ChatTurn("text", "a", 1)).error.message(), HasSubstr("text or token ids"));
  Run(ChatTurn("chat", "a", 1));
  EXPECT_THAT(Run(Turn("chat", "a", 1)).error.message(), HasSubstr("chat messages"));
  EXPECT_EQ(Info("chat").turns, 1);
}

TEST_F(SessionEngineTest, AnotherModelsIdsAreNotUsed) {
  const std::string key = store::SessionKey("", "s");
  store::SessionState state;
  state.vocabulary = "another";
  state.ids = {1, 2, 3};
  const std::string record = store::PackState(key, state);
  store::SessionHead head;
  head.expires_ms = INT64_MAX;
  head.turns = 1;
  head.tokens = 3;
  head.state_bytes = record.size();
  head.state_checksum = store::Checksum(record);
  const std::vector<store::StateChange> changes = {{"h" + key, store::PackHead(key, head)},
                                                   {"s" + key, record}};
  ASSERT_TRUE(store_->contents.Write(changes).ok());
  Start();
  EXPECT_THAT(Run(Turn("s", "a", 1)).error.message(), HasSubstr("a different vocabulary"));
  EXPECT_EQ(Info("s").tokens, 3);
}

TEST_F(SessionEngineTest, ADamagedSessionIsRejectedByNameAndCanBeClosed) {
  Start();
  Run(Turn("s", "a", 1));
  const std::vector<store::StateChange> damage = {{"s" + store::SessionKey("", "s"), "garbage"}};
  ASSERT_TRUE(store_->contents.Write(damage).ok());
  EXPECT_EQ(Run(Turn("s", "b", 1)).error.code(), StatusCode::kDataLoss);
  EXPECT_EQ(test_.engine->Submit(Turn("s", "b", 1), std::make_shared<TestSink>()).status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(Metric("ropeway_sessions_lost_total 1"));
  EXPECT_TRUE(test_.engine->CloseSession("s", "").ok());
  EXPECT_EQ(Run(Turn("s", "new", 3)).text, "new");
}

TEST_F(SessionEngineTest, TenantsHaveTheirOwnSessions) {
  Start();
  Request one = Turn("s", "one", 1);
  one.tenant = "one";
  Run(one);
  Request two = Turn("s", "two", 3);
  two.tenant = "two";
  EXPECT_EQ(Run(two).text, "two");
  EXPECT_EQ(test_.engine->Sessions("one").size(), 1U);
  EXPECT_EQ(test_.engine->CloseSession("s", "three").code(), StatusCode::kNotFound);
  EXPECT_TRUE(test_.engine->CloseSession("s", "two").ok());
  EXPECT_EQ(test_.engine->Sessions("one").size(), 1U);
}

TEST_F(SessionEngineTest, SessionIdsAreCheckedByName) {
  Start();
  for (const std::string& id : {std::string(257, 'x'), std::string("a\nb"), std::string("\xC3\xA4"),
                                std::string("a\0b", 3)}) {
    const auto submitted = test_.engine->Submit(Turn(id, "a", 1), std::make_shared<TestSink>());
    EXPECT_EQ(submitted.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(submitted.status().field(), "session_id");
  }
  EXPECT_EQ(Run(Turn(std::string(256, '~'), "a", 1)).text, "a");
}

TEST_F(SessionEngineTest, BadOptionsAreRejectedByName) {
  const auto rejected = [](auto change) {
    TestEngine test;
    change(&test.options);
    const Status status = ValidateEngineOptions(test.options);
    if (!status.ok()) return status.field();
    LlmEngineConfig config;
    config.options = test.options;
    config.model_context_length = 64;
    config.tokenizer = std::make_shared<ByteTokenizer>();
    config.executor = std::make_unique<EchoExecutor>(test.control);
    config.clock = &test.clock;
    config.random = &test.random;
    return LlmEngine::Create(std::move(config)).status().field();
  };
  EXPECT_EQ(rejected([](EngineOptions* o) { o->sessions.ttl = std::chrono::seconds(0); }),
            "session_ttl");
  EXPECT_EQ(rejected([](EngineOptions* o) { o->sessions.max_sessions = 0; }), "max_sessions");
  EXPECT_EQ(rejected([](EngineOptions* o) { o->sessions.store_bytes = 1000; }),
            "session_store_bytes");
  EXPECT_EQ(rejected([](EngineOptions* o) { o->sessions.state_path = "/dev/null/state"; }),
            "state_path");
}

}  // namespace
}  // namespace ropeway::engine
