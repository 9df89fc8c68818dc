// Started responses and their events, for tests.
#ifndef ROPEWAY_API_TEST_RESPONSES_H_
#define ROPEWAY_API_TEST_RESPONSES_H_

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/dialects.h"

namespace ropeway::api {

// A response to "Hi" whose body has these members too, as "resp_1".
inline std::unique_ptr<ItemFormat> StartedResponse(const std::string& members = "") {
  std::unique_ptr<ApiFormat> format = MakeOpenAiResponses();
  const Status status = format->Parse(R"({"input":"Hi")" + members + "}", {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  head.created = 5;
  head.model = "m";
  format->Start(std::move(head));
  return std::unique_ptr<ItemFormat>(static_cast<ItemFormat*>(format.release()));
}

inline Finish EndedBy(FinishReason reason) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {
      .prompt_tokens = 3, .completion_tokens = 9, .cached_tokens = 2, .reasoning_tokens = 4};
  finish.seed = 7;
  return finish;
}

// A delta of one token.
inline Delta Says(std::string text, std::string reasoning = "") {
  Delta delta;
  delta.text = std::move(text);
  delta.reasoning = std::move(reasoning);
  OutputToken& token = delta.tokens.emplace_back();
  token.bytes = delta.text;
  token.logprob = -1;
  return delta;
}
inline Delta Calls(int32_t index, std::string id, std::string name, std::string arguments) {
  Delta delta = Says("");
  delta.tool_calls.push_back({index, std::move(id), std::move(name), std::move(arguments)});
  return delta;
}

inline std::string StreamOf(ApiFormat* format, const std::vector<Delta>& deltas,
                            const Finish& finish) {
  std::string stream = format->Begin();
  for (const Delta& delta : deltas) stream += format->OnDelta(0, delta);
  stream += format->OnEnd(0, finish);
  return stream + format->Done();
}

// The events of a stream. Each has the name of its type.
inline std::vector<nlohmann::json> TypedEvents(std::string_view stream) {
  std::vector<nlohmann::json> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    const size_t line = stream.find("\ndata: ");
    EXPECT_TRUE(end != stream.npos && line < end && stream.starts_with("event: ")) << stream;
    if (end == stream.npos) break;
    events.push_back(nlohmann::json::parse(stream.substr(line + 7, end - line - 7)));
    EXPECT_EQ(events.back()["type"], stream.substr(7, line - 7));
    stream.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace ropeway::api

#endif  // ROPEWAY_API_TEST_RESPONSES_H_
