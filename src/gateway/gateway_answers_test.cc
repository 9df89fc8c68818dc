// Thoughts and calls of tools through a gateway, also where a backend breaks off within them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using Record = RecordingSink::Record;

// Two rounds of thoughts, text and a call. The last call's last piece is held back to the end.
constexpr int kTokens = 18;

std::vector<std::shared_ptr<ScriptedBackend>> TwoOf(const ScriptedBackend::ScriptFn& script) {
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < 2; ++i) {
    backends.push_back(std::make_shared<ScriptedBackend>(script));
    backends.back()->set_facts(ResumableFacts());
    backends.back()->set_resumes(true);
  }
  return backends;
}

TEST(GatewayAnswersTest, TheyArriveApart) {
  for (const bool says_tokens : {true, false}) {
    ScriptedGateway gateway({std::make_shared<ScriptedBackend>([&](const Request&) {
      return BackendScript{.tokens = kTokens, .says_tokens = says_tokens, .calls = "c"};
    })});
    const Request request = ScriptedRequest();
    const Record record = gateway.Submit(request)->WaitEnd();
    const ChatMessage expected = ExpectedAnswer(request, kTokens, "c");
    EXPECT_EQ(expected.tool_calls.size(), 2U);
    EXPECT_EQ(Shown(record.answer), Shown(expected)) << record.status.message();
    EXPECT_EQ(record.deltas, says_tokens ? kTokens + 1 : kTokens);
  }
}

TEST(GatewayAnswersTest, WhereverAnAnswerIsCutItGoesOnElsewhere) {
  const Request request = ScriptedRequest();
  const std::string expected = Shown(ExpectedAnswer(request, kTokens, "c"));
  for (int cut = 1; cut <= kTokens; ++cut) {
    ScriptedGateway gateway(TwoOf([cut](const Request& asked) {
      BackendScript script{.tokens = kTokens, .calls = "c"};
      if (asked.resume_ids.empty()) script.fail_after = cut;
      return script;
    }));
    const Record record = gateway.Submit(request)->WaitEnd();
    EXPECT_EQ(Shown(record.answer), expected) << cut << record.status.message();
    EXPECT_EQ(record.tokens.size(), static_cast<size_t>(kTokens)) << cut;
    EXPECT_EQ(gateway.backends[0]->resumed() + gateway.backends[1]->resumed(), 1) << cut;
  }
  // At the end, where a piece of a call comes without a token.
  for (int deltas = kTokens - 1; deltas <= kTokens + 1; ++deltas) {
    ScriptedGateway gateway(
        TwoOf([](const Request&) { return BackendScript{.tokens = kTokens, .calls = "c"}; }));
    for (const auto& backend : gateway.backends) backend->set_pause(std::chrono::milliseconds(2));
    const auto sink = gateway.Submit(request);
    ASSERT_TRUE(
        Eventually([&] { return sink->record().deltas >= deltas || sink->record().ends > 0; }));
    for (const auto& backend : gateway.backends) {
      if (backend->open() == 0) continue;
      backend->Kill();
      break;
    }
    EXPECT_EQ(Shown(sink->WaitEnd().answer), expected) << deltas;
  }
}

// The replica that is to go on from the ids rejects them, so the answer is computed anew. There its
// calls have other ids.
TEST(GatewayAnswersTest, WhereverItIsCutAnotherRunOfItGoesOn) {
  Request request = ScriptedRequest();
  request.logprobs = 0;  // Tokens that the client sees come once.
  for (int cut = 1; cut <= kTokens; ++cut) {
    std::atomic<int> attempts{0};
    ScriptedGateway gateway(TwoOf([&attempts, cut](const Request& asked) {
      BackendScript script{.tokens = kTokens, .checks_ids = false, .calls = "b"};
      if (attempts++ == 0) {
        script.fail_after = cut;
        script.add_to_ids = 1'000'000;
        script.calls = "a";
      } else if (!asked.resume_ids.empty()) {
        script.fail_in_start = true;
        script.failure = Outcome::Failed(FailureKind::kRejected,
                                         InvalidArgument("no such token id", "resume_ids"));
      }
      return script;
    }));
    const Record record = gateway.Submit(request)->WaitEnd();
    EXPECT_EQ(attempts, 3) << cut;
    ChatMessage expected = ExpectedAnswer(request, kTokens, "b");
    // The client keeps the ids that it knows. A call begins with the seventh token of a round.
    for (size_t i = 0; i < expected.tool_calls.size(); ++i) {
      if (cut >= static_cast<int>(9 * i + 7)) expected.tool_calls[i].id = "a" + std::to_string(i);
    }
    EXPECT_EQ(Shown(record.answer), Shown(expected)) << cut << record.status.message();
    EXPECT_EQ(record.tokens.size(), static_cast<size_t>(kTokens)) << cut;
  }
}

TEST(GatewayAnswersTest, ASessionKeepsAllOfIt) {
  const auto backend = std::make_shared<ScriptedBackend>(
      [](const Request&) { return BackendScript{.tokens = 9, .calls = "c"}; });
  ScriptedGateway gateway({backend});
  Request request = ScriptedRequest();
  request.prompt = Chat{.messages = {{"user", "Hi"}}};
  request.session_id = "s";
  ASSERT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  ASSERT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  const Chat sent = std::get<Chat>(backend->requests().back().prompt);
  ASSERT_EQ(sent.messages.size(), 3U);
  EXPECT_EQ(sent.messages[1].role, "assistant");
  ChatMessage expected = ExpectedAnswer(request, 9, "c");
  expected.tool_calls.at(0).arguments = "{}";  // The backend's are no JSON.
  EXPECT_EQ(Shown(sent.messages[1]), Shown(expected));
}

}  // namespace
}  // namespace ropeway::gateway
