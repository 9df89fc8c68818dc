#include "server/test_request_bodies.h"

#include <gtest/gtest.h>

namespace ropeway {

using nlohmann::json;

StatusOr<ApiRequest> Completion(const std::string& body) {
  return ParseApiRequest(body, false, {});
}
StatusOr<ApiRequest> Chat(const std::string& body) { return ParseApiRequest(body, true, {}); }

StatusOr<ApiRequest> CompletionWith(const std::string& field, const std::string& value) {
  return Completion("{\"prompt\":\"p\",\"" + field + "\":" + value + "}");
}
StatusOr<ApiRequest> ChatWith(const std::string& field, const std::string& value) {
  return Chat(R"({"messages":[{"role":"user","content":"c"}],")" + field + "\":" + value + "}");
}

int RefusedWithAnythingAnywhere(const nlohmann::json& good, bool chat) {
  const json values = json::parse(
      R"([null,true,0,-1,1e300,18446744073709551615,"","x",[],{},[[]],[{}],{"a":{}},[null],
          {"1":1e300},[[1],[2,"x"]],["a",["b"]]])");
  int refused = 0;
  const json flat = good.flatten();
  for (const auto& [path, unused] : flat.items()) {
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      for (const json& value : values) {
        json changed = good;
        changed[at] = value;
        StatusOr<ApiRequest> api = ParseApiRequest(changed.dump(), chat, {});
        if (api.ok()) continue;
        ++refused;
        EXPECT_FALSE(api.status().message().empty());
        EXPECT_FALSE(api.status().field().empty()) << changed.dump();
      }
    }
  }
  return refused;
}

}  // namespace ropeway
