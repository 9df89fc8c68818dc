// A gateway keeps the contract of a Backend, whatever is behind it.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "engine/test_backend_contract.h"
#include "engine/test_fakes.h"
#include "gateway/gateway.h"
#include "gateway/test_scripted_backend.h"
#include "net/test_fake_server.h"

namespace ropeway::gateway {
namespace {

Request SlowRequest() {
  Request request = ScriptedRequest();
  request.max_tokens = 4000;
  return request;
}

// Before backends of the test's own.
struct ScriptedUnderTest {
  Backend* backend() { return gateway.gateway.get(); }
  static Request Slowly() { return SlowRequest(); }

  static BackendScript Script(const Request& request) {
    return {.tokens = request.max_tokens.value_or(0)};
  }
  ScriptedGateway gateway{
      {std::make_shared<ScriptedBackend>(Script), std::make_shared<ScriptedBackend>(Script)}};
};

// Before servers, by HTTP.
struct HttpUnderTest {
  HttpUnderTest() {
    GatewayOptions options;
    GatewayModel& model = options.models.emplace_back();
    model.name = "m";
    for (const net::FakeServer* server : {&one, &two}) {
      model.backends.push_back({.url = server->url(), .max_concurrency = 100});
    }
    auto opened = OpenGateway(options, &clock, &random);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    gateway = *std::move(opened);
  }
  Backend* backend() { return gateway.get(); }
  static Request Slowly() { return SlowRequest(); }

  static net::FakeReply Slow(const net::FakeRequest& request) {
    if (request.method != "POST") return net::WellBehaved(request);
    net::FakeReply reply = net::Cut(net::WellBehaved(request), 100);
    reply.pause = std::chrono::milliseconds(1);
    return reply;
  }
  net::FakeServer one{Slow};
  net::FakeServer two{Slow};
  base::RealClock clock;
  base::SeededRandom random{7};
  std::unique_ptr<GatewayBackend> gateway;  // Last.
};

// Before an engine of this process, which calls its model otherwise.
struct LocalUnderTest {
  LocalUnderTest() {
    test.control->step_micros = 300;
    test.options.model.any_name = true;
    test.Start();
    GatewayConfig config;
    GatewayModel& model = config.models.emplace_back();
    model.name = "m";
    // The test owns the engine.
    model.backends.push_back(
        {.name = "local",
         .backend = std::shared_ptr<Backend>(std::shared_ptr<Backend>(), test.engine.get())});
    config.clock = &clock;
    config.random = &random;
    auto made = GatewayBackend::Create(std::move(config));
    EXPECT_TRUE(made.ok()) << made.status().message();
    gateway = *std::move(made);
    gateway->WaitProbed(std::chrono::seconds(60));
  }
  Backend* backend() { return gateway.get(); }
  static Request Slowly() { return SlowRequest(); }

  engine::TestEngine test;
  base::RealClock clock;
  base::SeededRandom random{7};
  std::unique_ptr<GatewayBackend> gateway;  // Last.
};

}  // namespace
}  // namespace ropeway::gateway

namespace ropeway::engine {

using GatewaysUnderTest =
    testing::Types<gateway::ScriptedUnderTest, gateway::HttpUnderTest, gateway::LocalUnderTest>;
INSTANTIATE_TYPED_TEST_SUITE_P(Gateway, BackendContract, GatewaysUnderTest);

}  // namespace ropeway::engine
