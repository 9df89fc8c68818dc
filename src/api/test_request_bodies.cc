#include "api/test_request_bodies.h"

#include <gtest/gtest.h>

#include "api/dialects.h"

namespace ropeway::api {

using nlohmann::json;

namespace {

StatusOr<OpenAiBody> ParseWith(ApiFormatMaker make_format, const std::string& body,
                               const BodyLimits& limits) {
  const std::unique_ptr<ApiFormat> format = make_format();
  Status status = format->Parse(body, limits);
  if (!status.ok()) return status;
  return static_cast<const OpenAiBody&>(*format->request());
}

}  // namespace

StatusOr<OpenAiBody> Completion(const std::string& body, const BodyLimits& limits) {
  return ParseWith(MakeOpenAiCompletions, body, limits);
}
StatusOr<OpenAiBody> ChatBody(const std::string& body, const BodyLimits& limits) {
  return ParseWith(MakeOpenAiChat, body, limits);
}

StatusOr<OpenAiBody> CompletionWith(const std::string& field, const std::string& value) {
  return Completion("{\"prompt\":\"p\",\"" + field + "\":" + value + "}");
}
StatusOr<OpenAiBody> ChatWith(const std::string& field, const std::string& value) {
  return ChatBody(R"({"messages":[{"role":"user","content":"c"}],")" + field + "\":" + value + "}");
}

int RejectedWithAnythingAnywhere(const nlohmann::json& good, ApiFormatMaker make_format) {
  const json values = json::parse(
      R"([null,true,0,-1,1e300,18446744073709551615,"","x",[],{},[[]],[{}],{"a":{}},[null],
          {"1":1e300},[[1],[2,"x"]],["a",["b"]]])");
  int rejected = 0;
  const json flat = good.flatten();
  for (const auto& [path, unused] : flat.items()) {
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      for (const json& value : values) {
        json changed = good;
        changed[at] = value;
        StatusOr<OpenAiBody> api = ParseWith(make_format, changed.dump(), {});
        if (api.ok()) continue;
        ++rejected;
        EXPECT_FALSE(api.status().message().empty());
        EXPECT_FALSE(api.status().field().empty()) << changed.dump();
      }
    }
  }
  return rejected;
}

}  // namespace ropeway::api
