// A body of POST /completion, llama.cpp's own: what is accepted is prompts that an engine takes,
// and every answer to it is JSON.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "base/json.h"
#include "core/parameters.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

constexpr base::JsonBounds kBounds = {.max_depth = 80};

bool IsJson(std::string_view text) { return base::ReadJson(text, kBounds, "the text").ok(); }

void RequireEvents(std::string_view stream) {
  constexpr std::string_view kBegin = "data: ";
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    Require(stream.starts_with(kBegin) && end != stream.npos, "no event");
    Require(IsJson(stream.substr(kBegin.size(), end - kBegin.size())), "an event is no JSON");
    stream.remove_prefix(end + 2);
  }
}

void CheckPrompts(const api::ApiRequest& api) {
  Require(!api.prompts.empty() && api.n >= 1 && api.choices() <= 128, "the number of choices");
  for (const api::MixedPrompt& mixed : api.mixed_prompts) {
    Require(mixed.prompt < api.prompts.size() && !mixed.parts.empty(), "a prompt of parts");
    const auto* const ids = std::get_if<std::vector<TokenId>>(&api.prompts[mixed.prompt]);
    Require(ids != nullptr && ids->empty(), "the ids are the server's");
  }
  for (const core::Parameter& row : core::Parameters()) {
    Require(core::CheckParameter(row, api.request).ok(), "a parameter that no engine takes");
  }
}

void CheckBody(std::string_view body) {
  const std::unique_ptr<api::ApiFormat> format = api::MakeLlamaCppCompletion();
  const Status status = format->Parse(body, {});
  if (!status.ok()) return RequireError(status);
  const api::ApiRequest& api = *format->request();
  CheckPrompts(api);
  api::AnswerHead head;
  head.id = "1";
  head.prompt_texts.resize(api.prompts.size(), "a\xff");
  format->Start(head);
  api::ChoiceOutput output;
  output.text = "a\n";
  output.tokens.resize(1);
  output.finish.stop = 0;
  Require(IsJson(format->Whole(std::vector<api::ChoiceOutput>(api.choices(), output))),
          "the answer is no JSON");
  if (!api.stream) return;
  Delta delta;
  delta.text = "a";
  delta.tokens.resize(1);
  const size_t last = api.choices() - 1;
  std::string stream = format->Begin();
  stream += format->OnDelta(last, delta);
  stream += format->OnEnd(last, output.finish);
  RequireEvents(stream + format->Done());
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ropeway::fuzz::CheckBody({reinterpret_cast<const char*>(data), size});
  return 0;
}
