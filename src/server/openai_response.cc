#include "server/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/logprobs_json.h"

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json UsageObject(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json RopewayObject(const Finish& finish) {
  const bool any = finish.usage.completion_tokens > 0;
  const bool began = finish.batch_num > 0;
  return {{"batch_num", any ? Json(finish.first_token_step) : Json(nullptr)},
          {"seed", finish.seed},
          {"batch", began ? Json(finish.batch_num) : Json(nullptr)},
          {"batch_size", began ? Json(finish.batch_size) : Json(nullptr)}};
}

Json ModelEntry(const ModelInfo& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "ropeway"},
          {"max_model_len", model.max_model_len}};
}

// The "logprobs" of one completion, its echo included.
Json CompletionLists(const ChoiceOutput& choice, const std::string* echo) {
  Json lists = EmptyCompletionLogprobs();
  TextOffsets offsets;
  if (echo != nullptr) {
    offsets.Append(*echo);
    const size_t begin = PromptTextBegin(choice.prompt_tokens, *echo);
    AppendCompletionLogprobs(
        choice.prompt_tokens,
        [&](const OutputToken& token) {
          return offsets.Characters(token.text_offset -
                                    std::min<uint64_t>(begin, token.text_offset));
        },
        &lists);
  }
  const size_t before = echo == nullptr ? 0 : echo->size();
  offsets.Append(choice.text);
  AppendCompletionLogprobs(
      choice.tokens,
      [&](const OutputToken& token) { return offsets.Characters(before + token.text_offset); },
      &lists);
  return lists;
}

Json ChoiceObject(const AnswerHead& head, size_t index, const ChoiceOutput& choice) {
  Json object = {{"index", index}};
  if (head.chat) {
    object["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    object["logprobs"] = head.logprobs ? ChatLogprobs(choice.tokens) : Json(nullptr);
  } else {
    const std::string* echo =
        head.echo.empty() ? nullptr : &head.echo[index / static_cast<size_t>(head.n)];
    object["text"] = echo == nullptr ? choice.text : *echo + choice.text;
    object["logprobs"] = head.logprobs ? CompletionLists(choice, echo) : Json(nullptr);
    if (head.prompt_logprobs) object["prompt_logprobs"] = PromptLogprobs(choice.prompt_tokens);
  }
  object["finish_reason"] = FinishReasonText(choice.finish.reason);
  return object;
}

}  // namespace

int64_t TextOffsets::Characters(uint64_t byte_offset) {
  const size_t end = std::min<uint64_t>(byte_offset, text_.size());
  for (; at_ < end; ++at_) {
    const bool begins = (static_cast<uint8_t>(text_[at_]) & 0xC0) != 0x80;
    characters_ += begins ? 1 : 0;
  }
  // Text that is still held back (it may become a stop string) counts by its bytes.
  return characters_ + static_cast<int64_t>(byte_offset - std::min<uint64_t>(byte_offset, at_));
}

size_t PromptTextBegin(const std::vector<OutputToken>& prompt_tokens, std::string_view text) {
  std::string all;
  for (const OutputToken& token : prompt_tokens) all += token.bytes;
  return all.ends_with(text) ? all.size() - text.size() : 0;
}

Usage SumUsage(const std::vector<Finish>& finishes, int32_t n) {
  Usage sum;
  for (size_t i = 0; i < finishes.size(); ++i) {
    sum.completion_tokens += finishes[i].usage.completion_tokens;
    if (i % static_cast<size_t>(n) != 0) continue;
    sum.prompt_tokens += finishes[i].usage.prompt_tokens;
    sum.cached_tokens += finishes[i].usage.cached_tokens;
  }
  return sum;
}

// Written choice by choice: as JSON values log-probabilities take ten times their memory.
std::string AnswerJson(const AnswerHead& head, const std::vector<ChoiceOutput>& choices) {
  Json begin = {{"id", head.id},
                {"object", head.chat ? "chat.completion" : "text_completion"},
                {"created", head.created},
                {"model", head.model}};
  if (!head.service_tier.empty()) begin["service_tier"] = head.service_tier;
  std::string answer = Dump(begin);
  answer.back() = ',';  // It goes on.
  answer += "\"choices\":[";
  std::vector<Finish> finishes;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) answer += ',';
    answer += Dump(ChoiceObject(head, i, choices[i]));
    finishes.push_back(choices[i].finish);
  }
  answer += "],\"usage\":" + UsageJson(SumUsage(finishes, head.n));
  if (head.chat && head.prompt_logprobs) {
    answer += ",\"prompt_logprobs\":" + Dump(PromptLogprobs(choices.front().prompt_tokens));
  }
  return answer + ",\"ropeway\":" + RopewayJson(finishes.front()) + "}";
}

std::string UsageJson(const Usage& usage) { return Dump(UsageObject(usage)); }

std::string RopewayJson(const Finish& finish) { return Dump(RopewayObject(finish)); }

const char* ServiceTierName(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "priority";
    case Priority::kMedium:
      return "default";
    case Priority::kLow:
      return "flex";
  }
  return "default";
}

const char* FinishReasonText(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

std::string ModelsJson(const std::vector<ModelInfo>& models) {
  Json data = Json::array();
  for (const ModelInfo& model : models) data.push_back(ModelEntry(model));
  return Dump({{"object", "list"}, {"data", std::move(data)}});
}

std::string ModelJson(const ModelInfo& model) { return Dump(ModelEntry(model)); }

}  // namespace ropeway
