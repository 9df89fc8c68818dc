// What the gateway makes of backends that say what cannot be: names, usage, and more than was asked
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/reported_facts.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A gateway of one backend, whose model has the names that it reports.
ScriptedGateway Nameless(const BackendFacts& facts) {
  const auto backend = std::make_shared<ScriptedBackend>();
  backend->set_facts(facts);
  return ScriptedGateway({backend}, [](GatewayConfig* config) { config->models[0].name.clear(); });
}

TEST(GatewayLiesTest, NamesAreShownOnlyWhereTheyArePrintable) {
  BackendFacts facts;
  facts.models = {"ev\"il\n{x=\"1\"} 5\nfoo 3\r\nX: y", "\xE2\x80\xAEtfel",
                  std::string(100'000, 'a'), "good"};
  const ScriptedGateway gateway = Nameless(facts);
  const std::vector<engine::ModelInfo> models = gateway.gateway->Models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].id, "good");
  EXPECT_EQ(gateway.gateway->Backends()[0].model, "good");
  EXPECT_THAT(gateway.gateway->MetricsText(), AllOf(HasSubstr("good"), Not(HasSubstr("foo 3"))));
}

TEST(GatewayLiesTest, ABackendWithManyModelsCostsItsBounds) {
  BackendFacts facts;
  for (int i = 0; i < 60'000; ++i) facts.models.push_back("m" + std::to_string(i));
  ScriptedGateway gateway = Nameless(facts);
  EXPECT_EQ(gateway->Models().size(), kMostModelNames);
  Request request = ScriptedRequest();
  request.model = "m1000";
  EXPECT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  request.model = "none";
  const Status status = gateway.Submit(request)->WaitEnd().status;
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("\"m9\""), HasSubstr("and 1014 more")));
  EXPECT_LT(status.message().size(), 500U);
}

}  // namespace
}  // namespace ropeway::gateway
