#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>

#include "core/parameters.h"
#include "server/handlers.h"
#include "server/routes.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

// Handlers are never called.
json Document() { return json::parse(OpenApiJson(ServerRoutes(nullptr))); }

TEST(OpenApi, HasEveryRoute) {
  const json paths = Document()["paths"];
  size_t operations = 0;
  for (const auto& [path, methods] : paths.items()) operations += methods.size();
  EXPECT_EQ(operations, ServerRoutes(nullptr).size());
  for (const http::Route& route : ServerRoutes(nullptr)) {
    std::string method(route.method);
    std::ranges::transform(method, method.begin(), ::tolower);
    const json operation =
        paths.value(std::string(route.path), json::object()).value(method, json());
    ASSERT_TRUE(operation.is_object()) << route.path;
    EXPECT_FALSE(operation["summary"].get<std::string>().empty()) << route.path;
    EXPECT_EQ(operation.contains("requestBody"), route.limits.takes_body) << route.path;
    EXPECT_EQ(operation.contains("parameters"), route.path.find('{') != std::string::npos);
  }
}

// An empty requirement is "none": what is not the admin's is open where there are no keys.
TEST(OpenApi, SaysWhichKeyIsNeeded) {
  const json paths = Document()["paths"];
  const auto security = [&](const char* path, const char* method) {
    return paths[path][method]["security"].dump();
  };
  EXPECT_EQ(security("/health", "get"), "[{}]");
  EXPECT_EQ(security("/v1/chat/completions", "post"), R"([{"bearer":[]},{"apiKey":[]},{}])");
  EXPECT_EQ(security("/admin/drain", "post"), R"([{"bearer":[]},{"apiKey":[]}])");
}

TEST(OpenApi, HasEveryFieldAndParametersWithTheirRanges) {
  const json paths = Document()["paths"];
  size_t dialects = 0;
  for (const http::Route& route : ServerRoutes(nullptr)) {
    if (route.method != "POST" || std::ranges::find(route.fields, "stream") == route.fields.end()) {
      continue;
    }
    if (!route.path.starts_with("/v1/")) continue;  // Ollama's parameters are in its "options".
    ++dialects;
    const json body = paths[std::string(route.path)]["post"]["requestBody"]["content"];
    const json fields = body["application/json"]["schema"]["properties"];
    EXPECT_TRUE(fields.contains("prompt") || fields.contains("input") ||
                fields.contains("messages"))
        << route.path;
    EXPECT_TRUE(fields.contains("stream"));
    const bool anthropic = route.path == "/v1/messages";  // It has "stop_sequences".
    for (const core::Parameter& row : core::Parameters()) {
      if (anthropic && row.name == std::string_view("stop")) continue;
      ASSERT_TRUE(fields.contains(row.name)) << row.name;
      EXPECT_TRUE(fields[row.name].contains("type")) << row.name;
      const double least = row.no_limit != 0 ? row.no_limit : row.low;
      EXPECT_EQ(fields[row.name].value("minimum", least), least) << row.name;
    }
    EXPECT_EQ(fields["temperature"]["type"], "number");
    EXPECT_EQ(fields["temperature"]["maximum"], 2);
    EXPECT_EQ(fields["top_p"]["exclusiveMinimum"], 0);
    EXPECT_EQ(fields["max_tokens"]["type"], "integer");
    EXPECT_EQ(fields["max_tokens"]["minimum"], -1);
    EXPECT_EQ(fields["min_tokens"]["minimum"], 0);
    if (!anthropic) {
      EXPECT_EQ(fields["stop"]["type"], json::parse(R"(["string","array"])"));
    }
    EXPECT_EQ(fields["ignore_eos"]["type"], "boolean");
  }
  EXPECT_GE(dialects, 4U);
}

class HttpOpenApiTest : public ServerTest {};

TEST_F(HttpOpenApiTest, IsServedAsTheVersionIs) {
  ServerOptions options;
  options.api_keys = {{"team", "sk-team-key-1"}};
  options.admin_key = "admin-key-3";
  StartServer(options);
  const auto status_with = [&](const std::string& headers) {
    TestClient other(port());
    other.Send("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return other.Read();
  };
  EXPECT_EQ(status_with("").status, 401);
  EXPECT_EQ(status_with(Bearer("admin-key-3")).status, 200);
  const ClientReply reply = status_with(Bearer("sk-team-key-1"));
  EXPECT_EQ(json::parse(reply.body)["openapi"], "3.1.0");
  EXPECT_TRUE(json::parse(reply.body)["paths"].contains("/openapi.json"));
}

}  // namespace
}  // namespace ropeway::server
