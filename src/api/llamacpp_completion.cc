// POST /completion: llama.cpp's own completions.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/api_format.h"
#include "api/dialects.h"
#include "api/json.h"
#include "api/llamacpp_answer.h"
#include "api/llamacpp_request.h"

namespace ropeway::api {
namespace {

using Json = nlohmann::ordered_json;

// There are no slots: a request has no place that it could come back to.
constexpr int kNoSlot = -1;

// The ids that are known: a gateway's backend may not tell them.
std::vector<TokenId> KnownIds(const std::vector<OutputToken>& tokens) {
  std::vector<TokenId> ids;
  ids.reserve(tokens.size());
  for (const OutputToken& token : tokens) {
    if (token.id >= 0) ids.push_back(token.id);
  }
  return ids;
}

class LlamaCppFormat final : public ApiFormat {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadLlamaCppBody(body, limits, &body_);
  }
  std::vector<std::string> Fields() const override { return NamesOf(LlamaCppFields()); }
  ApiRequest* request() override { return &body_; }

  void Start(AnswerHead head) override {
    head_ = std::move(head);
    choices_.resize(body_.stream ? body_.choices() : 0);
  }

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    std::string list;
    for (size_t i = 0; i < choices.size(); ++i) {
      const ChoiceOutput& choice = choices[i];
      const bool has_line = choice.text.find('\n') != choice.text.npos;
      Json answer = Ended(i, choice.finish, has_line);
      answer["content"] = choice.text;
      if (body_.return_tokens) answer["tokens"] = KnownIds(choice.tokens);
      if (body_.request.logprobs) {
        answer["completion_probabilities"] = LlamaCppProbabilities(choice.tokens);
      }
      if (i > 0) list += ',';
      list += DumpJson(Selected(std::move(answer), body_.response_fields));
    }
    return choices.size() == 1 ? list : "[" + list + "]";
  }

  void OnAdmitted(int64_t prompt_tokens) override { prompt_tokens_ = prompt_tokens; }
  std::string Begin() override { return ""; }

  std::string OnDelta(size_t choice, Delta delta) override {
    Choice& state = choices_[choice];
    state.tokens += delta.tokens.size();
    state.has_line = state.has_line || delta.text.find('\n') != delta.text.npos;
    if (delta.text.empty() && delta.tokens.empty()) return "";
    std::string event = fmt::format("data: {{\"index\":{},\"content\":", choice);
    AppendJsonString(delta.text, &event);
    fmt::format_to(std::back_inserter(event),
                   ",\"tokens\":[{}],\"stop\":false,\"id_slot\":{},\"tokens_predicted\":{},"
                   "\"tokens_evaluated\":{}",
                   fmt::join(KnownIds(delta.tokens), ","), kNoSlot, state.tokens, prompt_tokens_);
    if (body_.request.logprobs && !delta.tokens.empty()) {
      event += ",\"completion_probabilities\":" + DumpJson(LlamaCppProbabilities(delta.tokens));
    }
    return event + "}\n\n";
  }

  // Its text was sent.
  std::string OnEnd(size_t choice, const Finish& finish) override {
    Json answer = Ended(choice, finish, choices_[choice].has_line);
    return "data: " + DumpJson(Selected(std::move(answer), body_.response_fields)) + "\n\n";
  }
  // The last event ends the stream.
  std::string Done() override { return ""; }
  std::string StreamError(const ApiError& error) const override {
    return "data: " + LlamaCppError(error) + "\n\n";
  }
  std::string_view KeepAlive() const override { return ": keep-alive\n\n"; }

  // No answer shows its id.
  std::string_view id_prefix() const override { return "cmpl-"; }
  std::string ErrorBody(const ApiError& error) const override { return LlamaCppError(error); }

 private:
  struct Choice {
    size_t tokens = 0;
    bool has_line = false;
  };

  // All but the output.
  Json Ended(size_t choice, const Finish& finish, bool has_line) const {
    const LlamaCppEnd end = LlamaCppEndOf(body_.request, finish);
    const LlamaCppSettings settings = {
        .seed = finish.seed, .stream = body_.stream, .samplers = body_.samplers};
    return {{"index", choice},
            {"content", ""},
            {"tokens", Json::array()},
            {"id_slot", kNoSlot},
            {"stop", true},
            {"model", head_.model},
            {"tokens_predicted", finish.usage.completion_tokens},
            {"tokens_evaluated", finish.usage.prompt_tokens},
            {"generation_settings", LlamaCppSettingsJson(body_.request, settings)},
            {"prompt", head_.prompt_texts[choice / static_cast<size_t>(body_.n)]},
            {"has_new_line", has_line},
            {"truncated", end.truncated},
            {"stop_type", end.type},
            {"stopping_word", end.word},
            {"tokens_cached", finish.usage.cached_tokens},
            {"timings", LlamaCppTimings(finish)}};
  }

  LlamaCppBody body_;
  AnswerHead head_;
  int64_t prompt_tokens_ = 0;    // Of a stream: the first choice's.
  std::vector<Choice> choices_;  // Of a stream.
};

}  // namespace

std::unique_ptr<ApiFormat> MakeLlamaCppCompletion() { return std::make_unique<LlamaCppFormat>(); }

}  // namespace ropeway::api
