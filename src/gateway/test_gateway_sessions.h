// For tests of sessions that a gateway keeps: a gateway over scripted backends, which is started
// anew over the same records.
#ifndef ROPEWAY_GATEWAY_TEST_GATEWAY_SESSIONS_H_
#define ROPEWAY_GATEWAY_TEST_GATEWAY_SESSIONS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/test_scripted_backend.h"
#include "store/session.h"
#include "store/session_store.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::gateway {

// Does as the end of the prompt says; else it answers with 5 tokens.
inline BackendScript ScriptOfTurn(const Request& request) {
  const auto* const text = std::get_if<std::string>(&request.prompt);
  const std::string prompt =
      text != nullptr ? *text : std::get<Chat>(request.prompt).messages.back().content;
  BackendScript script;
  if (prompt.ends_with("nothing")) script.tokens = 0;
  if (prompt.ends_with("endless")) script.tokens = 1 << 30;
  if (prompt.ends_with("hang")) script.hang_after = 0;
  if (prompt.ends_with("call")) {
    script.tokens = 9;
    script.calls = "c";
  }
  if (prompt.ends_with("cut") && request.resume_ids.empty()) script.fail_after = 2;
  if (prompt.ends_with("bad")) {
    script.fail_in_start = true;
    script.failure =
        Outcome::Failed(FailureKind::kRejected, {StatusCode::kInvalidArgument, "too long"});
  }
  return script;
}

class GatewaySessionTest : public testing::Test {
 protected:
  ~GatewaySessionTest() override { control_->OpenGate(); }

  // Starts the gateway, anew if it is there, over the same records.
  void Start(const ScriptedGateway::ConfigFn& change = {}) {
    gateway_.reset();
    std::vector<std::shared_ptr<ScriptedBackend>> backends;
    for (int i = 0; i < 2; ++i) {
      backends.push_back(std::make_shared<ScriptedBackend>(ScriptOfTurn));
      backends.back()->set_facts(ResumableFacts());
      backends.back()->set_resumes(true);
    }
    gateway_ = std::make_unique<ScriptedGateway>(backends, [&](GatewayConfig* config) {
      auto opened = store::SessionStore::Open(
          {}, std::make_shared<store::StateWriter>(std::make_unique<store::FaultyStateDb>(control_),
                                                   std::chrono::milliseconds(20)));
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      config->sessions = *std::move(opened);
      if (change) change(config);
    });
  }
  GatewayBackend* gateway() { return gateway_->gateway.get(); }

  static Request Turn(const std::string& session, const std::string& text) {
    Request request = ScriptedRequest(text);
    request.session_id = session;
    return request;
  }
  static Request ChatTurn(const std::string& session, const std::string& text) {
    Request request = Turn(session, "");
    request.prompt = Chat{.messages = {{"user", text}}};
    return request;
  }

  RecordingSink::Record Run(Request request, int most = -1) {
    return gateway_->Submit(std::move(request), most)->WaitEnd();
  }
  // Submits it, and notes its id.
  std::shared_ptr<RecordingSink> Submit(Request request) {
    auto sink = std::make_shared<RecordingSink>();
    const StatusOr<RequestId> id = gateway()->Submit(std::move(request), sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    id_ = id.ok() ? *id : 0;
    return sink;
  }
  // Why Submit itself rejects it; OK if it does not.
  Status Rejection(Request request) {
    return gateway()->Submit(std::move(request), std::make_shared<RecordingSink>()).status();
  }

  // All requests that backends got; turns of one session go one after the other, and to the replica
  // that has its cache.
  std::vector<Request> Sent() const {
    std::vector<Request> all;
    for (const auto& backend : gateway_->backends) {
      for (Request& request : backend->requests()) all.push_back(std::move(request));
    }
    return all;
  }
  // Whether a backend was sent this very prompt.
  bool WasSent(const std::string& prompt) const {
    for (const Request& request : Sent()) {
      const auto* const text = std::get_if<std::string>(&request.prompt);
      if (text != nullptr && *text == prompt) return true;
    }
    return false;
  }

  SessionInfo Info(const std::string& id) {
    for (const SessionInfo& info : gateway()->Sessions("")) {
      if (info.id == id) return info;
    }
    return {};
  }
  bool Metric(const std::string& line) {
    return gateway()->MetricsText().find("\n" + line + "\n") != std::string::npos;
  }

  std::shared_ptr<store::StateDbControl> control_ = std::make_shared<store::StateDbControl>();
  std::unique_ptr<ScriptedGateway> gateway_;
  RequestId id_ = 0;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_TEST_GATEWAY_SESSIONS_H_
