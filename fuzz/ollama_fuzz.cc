// A body of Ollama's POST /api/chat, /api/generate or /api/show: what is accepted is a prompt that
// an engine takes, and every line of its answer is one JSON object.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/ollama_request.h"
#include "base/json.h"
#include "core/request_check.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

void RequireLines(std::string_view stream) {
  while (!stream.empty()) {
    const size_t end = stream.find('\n');
    Require(end != stream.npos, "a line without an end");
    Require(base::IsJsonObject(stream.substr(0, end), {.max_depth = 80}), "a line is no object");
    stream.remove_prefix(end + 1);
  }
}

// An answer that calls a tool with the text of the body as its arguments, in two pieces.
void CheckAnswer(api::ApiFormat* format, std::string_view text) {
  api::AnswerHead head;
  head.id = "1";
  head.model = "m";
  format->Start(head);
  if (format->request()->prompts.empty()) {
    return Require(base::IsJsonObject(format->Whole({}), {}), "no object");
  }
  Delta delta;
  delta.text = "a\nb";
  const size_t half = text.size() / 2;
  delta.tool_calls = {{0, "c", "f", std::string(text.substr(0, half))}};
  std::string stream = format->OnDelta(0, delta);
  delta.tool_calls = {{0, "", "", std::string(text.substr(half))}};
  stream += format->OnDelta(0, delta);
  RequireLines(stream + format->OnEnd(0, {}) + format->Done());
  api::ChoiceOutput output;
  output.tool_calls = {{"c", "f", std::string(text)}};
  Require(base::IsJsonObject(format->Whole({output}), {.max_depth = 80}), "no object");
}

void CheckBody(api::ApiFormatMaker make, std::string_view body) {
  const std::unique_ptr<api::ApiFormat> format = make();
  const Status status = format->Parse(body, {});
  if (!status.ok()) return RequireError(status);
  const api::ApiRequest& api = *format->request();
  Require(api.prompts.size() <= 1 && api.n == 1, "one answer at most");
  for (const api::Prompt& prompt : api.prompts) {
    Request request = api.request;
    request.prompt = prompt;
    Require(core::CheckRequest(request).ok(), "a request that no engine takes");
  }
  CheckAnswer(format.get(), body);
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropeway;
  const std::string_view body{reinterpret_cast<const char*>(data), size};
  fuzz::CheckBody(api::MakeOllamaChat, body);
  fuzz::CheckBody(api::MakeOllamaGenerate, body);
  const StatusOr<api::OllamaModelBody> model = api::ReadOllamaModelBody(body, {});
  if (!model.ok()) fuzz::RequireError(model.status());
  return 0;
}
