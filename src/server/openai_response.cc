#include "server/openai_response.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/errors.h"
#include "server/logprobs_json.h"

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Event(const Json& json) { return "data: " + Dump(json) + "\n\n"; }

Json FinishReasonJson(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json LogprobsJson(const AnswerHead& head, const std::vector<OutputToken>& tokens,
                  TextOffsets* offsets) {
  if (!head.logprobs) return nullptr;
  if (head.chat) return ChatLogprobs(tokens);
  return CompletionLogprobs(tokens, [&](uint64_t at) { return offsets->Characters(at); });
}

Json ModelEntry(const ModelInfo& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "ropeway"},
          {"max_model_len", model.max_model_len}};
}

Json HeadJson(const AnswerHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
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

std::string AnswerJson(const AnswerHead& head, const std::string& text,
                       const std::vector<OutputToken>& tokens, const Finish& finish) {
  TextOffsets offsets;
  offsets.Append(text);
  Json choice = {{"index", 0}};
  if (head.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = LogprobsJson(head, tokens, &offsets);
  choice["finish_reason"] = FinishReasonJson(finish.reason);

  Json answer = HeadJson(head, head.chat ? "chat.completion" : "text_completion");
  answer["choices"] = Json::array({std::move(choice)});
  answer["usage"] = UsageJson(finish.usage);
  return Dump(answer);
}

EventWriter::EventWriter(AnswerHead head) : head_(std::move(head)) {}

std::string EventWriter::Chunk(Json choice) const {
  Json chunk = HeadJson(head_, head_.chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array({std::move(choice)});
  if (head_.include_usage) chunk["usage"] = nullptr;
  return Event(chunk);
}

std::string EventWriter::Begin() const {
  if (!head_.chat) return "";
  return Chunk({{"index", 0},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

std::string EventWriter::Delta(const ropeway::Delta& delta) {
  if (delta.text.empty() && (!head_.logprobs || delta.tokens.empty())) return "";
  if (head_.logprobs && !head_.chat) offsets_.Append(delta.text);
  Json choice = {{"index", 0}};
  if (head_.chat) {
    choice["delta"] = {{"content", delta.text}};
  } else {
    choice["text"] = delta.text;
  }
  choice["logprobs"] = LogprobsJson(head_, delta.tokens, &offsets_);
  choice["finish_reason"] = nullptr;
  return Chunk(std::move(choice));
}

std::string EventWriter::End(const Finish& finish) const {
  Json choice = {{"index", 0}};
  if (head_.chat) {
    choice["delta"] = Json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishReasonJson(finish.reason);
  std::string out = Chunk(std::move(choice));
  if (head_.include_usage) {
    Json chunk = HeadJson(head_, head_.chat ? "chat.completion.chunk" : "text_completion");
    chunk["choices"] = Json::array();
    chunk["usage"] = UsageJson(finish.usage);
    out += Event(chunk);
  }
  return out + "data: [DONE]\n\n";
}

std::string EventWriter::Error(const Status& status) {
  return "data: " + ErrorJson(ToApiError(status)) + "\n\n";
}

std::string ModelsJson(const std::vector<ModelInfo>& models) {
  Json data = Json::array();
  for (const ModelInfo& model : models) data.push_back(ModelEntry(model));
  return Dump({{"object", "list"}, {"data", std::move(data)}});
}

std::string ModelJson(const ModelInfo& model) { return Dump(ModelEntry(model)); }

}  // namespace ropeway
