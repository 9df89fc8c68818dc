#include "ropeway/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::HasSubstr;

// One scripted backend, for the model "m".
GatewayOptions OptionsWith(std::shared_ptr<Backend> backend) {
  GatewayOptions options;
  GatewayModel& model = options.models.emplace_back();
  model.name = "m";
  model.backends.push_back({.name = "", .backend = std::move(backend)});
  return options;
}

TEST(GatewayTest, AHandleMayOutliveItsGateway) {
  auto gateway = Gateway::Create(OptionsWith(std::make_shared<ScriptedBackend>()));
  ASSERT_TRUE(gateway.ok()) << gateway.status().message();
  const auto handle = (*gateway)->Infer(ScriptedRequest());
  ASSERT_TRUE(handle.ok()) << handle.status().message();
  gateway->reset();
  handle->Cancel();
  EXPECT_EQ(handle->Wait()->id, handle->id());
}

TEST(GatewayTest, InfersStreamsAndEnds) {
  auto gateway = Gateway::Create(OptionsWith(std::make_shared<ScriptedBackend>()));
  ASSERT_TRUE(gateway.ok()) << gateway.status().message();
  Request request = ScriptedRequest();
  request.priority = Priority::kHigh;
  std::string streamed;
  const auto handle = (*gateway)->Infer(request, [&](RequestId, const Delta& delta) {
    streamed += delta.text;
    return true;
  });
  ASSERT_TRUE(handle.ok()) << handle.status().message();
  const auto result = handle->Wait();
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->status.ok()) << result->status.message();
  EXPECT_EQ(result->id, handle->id());
  EXPECT_EQ(result->text, ExpectedText(request, 5));
  EXPECT_EQ(streamed, result->text);
  EXPECT_EQ(result->finish.usage.completion_tokens, 5);
  EXPECT_TRUE(handle->Poll().has_value());
  EXPECT_EQ((*gateway)->Cancel(handle->id()).code(), StatusCode::kNotFound);

  const GatewayHealth health = (*gateway)->Health();
  EXPECT_TRUE(health.ready) << health.reason;
  ASSERT_EQ(health.backends.size(), 1U);
  EXPECT_EQ(health.backends[0].name, "1");
  EXPECT_EQ((*gateway)->Stats().total_requests, 1U);
  EXPECT_THAT((*gateway)->MetricsText(), HasSubstr("ropeway_backend_requests_total"));

  EXPECT_TRUE((*gateway)->Shutdown(std::chrono::seconds(60)).ok());
  EXPECT_FALSE((*gateway)->Health().ready);
  EXPECT_EQ((*gateway)->Infer(request).status().code(), StatusCode::kUnavailable);
}

TEST(GatewayTest, CancelsByHandleByIdAndByCallback) {
  const auto backend = std::make_shared<ScriptedBackend>(
      [](const Request&) { return BackendScript{.tokens = 1 << 30}; });
  auto gateway = Gateway::Create(OptionsWith(backend));
  ASSERT_TRUE(gateway.ok());
  const auto by_handle = (*gateway)->Infer(ScriptedRequest());
  const auto by_id = (*gateway)->Infer(ScriptedRequest());
  const auto by_callback =
      (*gateway)->Infer(ScriptedRequest(), [](RequestId, const Delta&) { return false; });
  ASSERT_TRUE(by_handle.ok() && by_id.ok() && by_callback.ok());
  EXPECT_FALSE(by_handle->Poll().has_value());
  by_handle->Cancel();
  EXPECT_TRUE((*gateway)->Cancel(by_id->id()).ok());
  for (const auto& handle : {*by_handle, *by_id, *by_callback}) {
    const auto result = handle.Wait();
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->status.code(), StatusCode::kCancelled);
    EXPECT_EQ(result->finish.reason, FinishReason::kCancelled);
  }
  EXPECT_TRUE(Eventually([&] { return backend->open() == 0; }));
}

TEST(GatewayTest, SessionsSurviveARestart) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("gateway_state_" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  GatewayOptions options = OptionsWith(std::make_shared<ScriptedBackend>());
  options.sessions.state_path = folder.string();
  std::string history;
  for (const char* text : {"Once", "upon", "a"}) {
    const auto backend = std::make_shared<ScriptedBackend>();
    options.models[0].backends[0].backend = backend;
    auto gateway = Gateway::Create(options);
    ASSERT_TRUE(gateway.ok()) << gateway.status().message();
    Request request = ScriptedRequest(text);
    request.session_id = "s";
    const auto handle = (*gateway)->Infer(request);
    ASSERT_TRUE(handle.ok()) << handle.status().message();
    const auto result = handle->Wait();
    ASSERT_TRUE(result.ok() && result->status.ok());
    history += text;
    EXPECT_EQ(result->text, ExpectedText(ScriptedRequest(history), 5));
    EXPECT_EQ(result->finish.session_tokens, std::string(text) == "Once" ? 0 : 12);
    history += result->text;
    ASSERT_EQ((*gateway)->Sessions().size(), 1U);
    EXPECT_TRUE((*gateway)->Sessions()[0].durable);
    EXPECT_EQ((*gateway)->CloseSession("other").code(), StatusCode::kNotFound);
    if (std::string(text) == "a") {
      EXPECT_TRUE((*gateway)->CloseSession("s").ok());
      EXPECT_TRUE((*gateway)->Sessions().empty());
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(GatewayTest, BadOptionsAreNamed) {
  const auto field = [](const std::function<void(GatewayOptions*)>& change) {
    GatewayOptions options = OptionsWith(std::make_shared<ScriptedBackend>());
    change(&options);
    return Gateway::Create(options).status().field();
  };
  EXPECT_EQ(field([](GatewayOptions* o) { o->models.clear(); }), "models");
  EXPECT_EQ(field([](GatewayOptions* o) { o->batching.dispatch = "now"; }), "dispatch");
  EXPECT_EQ(field([](GatewayOptions* o) { o->batch_control = "none"; }), "batch_control");
  EXPECT_EQ(field([](GatewayOptions* o) { o->queue.policy = "none"; }), "policy");
  EXPECT_EQ(field([](GatewayOptions* o) { o->sessions.max_sessions = 0; }), "max_sessions");
  EXPECT_EQ(field([](GatewayOptions* o) { o->sessions.max_stored = 0; }), "max_stored");
  EXPECT_EQ(field([](GatewayOptions* o) { o->sessions.state_path = "/dev/null/state"; }),
            "state_path");
  EXPECT_EQ(field([](GatewayOptions* o) { o->models[0].backends[0].weight = 0; }), "weight");
  EXPECT_EQ(field([](GatewayOptions* o) { o->models[0].backends[0].url = "http://a"; }), "url");
  EXPECT_EQ(field([](GatewayOptions* o) { o->models[0].backends[0].backend = nullptr; }), "url");
  const auto with_url = [](const char* url, const char* kind) {
    GatewayOptions options = OptionsWith(nullptr);
    options.models[0].backends[0].url = url;
    options.models[0].backends[0].kind = kind;
    return Gateway::Create(options).status();
  };
  EXPECT_THAT(with_url("http://127.0.0.1:1", "none").message(), HasSubstr("'none'"));
  EXPECT_THAT(with_url("nowhere", "openai").message(), HasSubstr("backend 1: "));
}

TEST(GatewayTest, AServerThatIsNotThereFailsRequestsWithItsName) {
  GatewayOptions options = OptionsWith(nullptr);
  options.models[0].backends[0].url = "http://127.0.0.1:1";
  options.probe_interval = std::chrono::milliseconds(20);
  auto gateway = Gateway::Create(options);
  ASSERT_TRUE(gateway.ok()) << gateway.status().message();
  ASSERT_TRUE(Eventually([&] { return !(*gateway)->Health().ready; }));
  const auto handle = (*gateway)->Infer(ScriptedRequest());
  ASSERT_FALSE(handle.ok());
  EXPECT_EQ(handle.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(handle.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace ropeway::gateway
