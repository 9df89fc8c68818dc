#include "gateway/openai_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <variant>

namespace ropeway::gateway::wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

bool IsChat(const Request& request) {
  return std::holds_alternative<std::vector<ChatMessage>>(request.prompt);
}

// What is compared of a stream's id.
constexpr size_t kMaxIdBytes = 256;

}  // namespace

// --- The answer.

std::optional<BackendFailure> StreamError(const Json& event) {
  const Json& member = Member(event, "error");
  const bool flat = Text(Member(event, "object")) == "error";  // As older vLLMs write it.
  if (member.is_null() && !flat) return std::nullopt;
  const Json& error = member.is_null() ? event : member;
  const std::string_view said = ErrorText(event);
  BackendFailure failure = Broken("ended its stream with an error: " +
                                  std::string(said.empty() ? "it does not say which" : said));
  const std::string_view type = Text(Member(error, "type"));
  if (Text(Member(error, "param")) == "resume_ids") {
    failure.kind = BackendFailure::Kind::kRejected;  // A Ropeway, whatever code it gives.
  } else if (const std::optional<int32_t> code = Count(Member(error, "code"))) {
    failure.kind = FailureKindOf(*code);
  } else if (type == "invalid_request_error" || type == "BadRequestError") {
    failure.kind = BackendFailure::Kind::kRejected;
  }
  if (failure.kind == BackendFailure::Kind::kRejected) {
    failure.status = Status(StatusCode::kInvalidArgument, failure.status.message());
  }
  return failure;
}

OpenAiReply::OpenAiReply(const Request& request)
    : chat_(IsChat(request)),
      logprobs_(request.logprobs),
      max_tokens_(request.max_tokens),
      length_(request.max_tokens) {}

std::optional<BackendFailure> OpenAiReply::Feed(std::string_view bytes, RemoteSink* sink) {
  std::optional<BackendFailure> failure;
  const bool fits = events_.Feed(bytes, [&](const net::SseEvent& event) {
    if (!failure && !complete_) failure = TakeEvent(event.data, sink);
  });
  if (!fits && !failure && !complete_) {
    failure = Broken(fmt::format("sent an event of more than {} bytes", size_t{kMaxEventBytes}));
  }
  return failure;
}

std::optional<BackendFailure> OpenAiReply::TakeEvent(std::string_view data, RemoteSink* sink) {
  if (data == "[DONE]") {
    complete_ = true;
    return std::nullopt;
  }
  StatusOr<Json> event = ReadDocument(data, "an event of its stream");
  if (!event.ok()) return Broken("sent a broken answer: " + event.status().message());
  if (!event->is_object()) return Broken("sent an event that is no JSON object");
  if (std::optional<BackendFailure> failure = StreamError(*event)) return failure;
  if (std::optional<BackendFailure> failure = CheckId(*event)) return failure;
  TakeUsage(*event);
  if (std::optional<BackendFailure> failure = OnEvent(*event)) return failure;
  if (finished_) {
    // The answer is complete: behind it comes its usage, and nothing else is taken.
    complete_ = !length_.Take(0);
    return std::nullopt;
  }
  const Json& choices = Member(*event, "choices");
  if (choices.is_array() && !choices.empty()) {
    if (choices.size() > 1 || Count(Member(choices[0], "index")).value_or(0) != 0) {
      return Broken("answered with a choice that was not asked for");
    }
    return TakeChoice(choices[0], sink);
  }
  return length_.Take(0) ? std::nullopt : std::optional(Broken("sent a stream without an end"));
}

std::optional<BackendFailure> OpenAiReply::CheckId(const Json& event) {
  const std::string_view id = Text(Member(event, "id")).substr(0, kMaxIdBytes);
  if (id.empty()) return std::nullopt;
  if (id_.empty()) id_ = id;
  if (id_ == id) return std::nullopt;
  return Broken("mixed the answers to two requests");
}

void OpenAiReply::TakeUsage(const Json& event) {
  const Json& usage = Member(event, "usage");
  const auto take = [](const Json& count, std::optional<int32_t>* to) {
    if (const std::optional<int32_t> read = Count(count)) *to = read;
  };
  take(Member(usage, "prompt_tokens"), &end_.prompt_tokens);
  take(Member(usage, "completion_tokens"), &end_.completion_tokens);
  // llama-server's own field, for those that have it alone; then OpenAI's.
  take(Member(Member(event, "timings"), "cache_n"), &end_.cached_tokens);
  take(Member(Member(usage, "prompt_tokens_details"), "cached_tokens"), &end_.cached_tokens);
}

std::optional<BackendFailure> OpenAiReply::TakeChoice(const Json& choice, RemoteSink* sink) {
  const bool has_text = !Member(choice, "text").is_null();
  const bool has_delta = !Member(choice, "delta").is_null();
  if (has_text != has_delta && has_text == chat_) {
    return Broken("answered another kind of request than the one it got");
  }
  Delta delta;
  delta.text = TakeText(choice);
  if (logprobs_ &&
      !ReadLogprobs(Member(choice, "logprobs"), *logprobs_, &token_bytes_, &delta.tokens)) {
    return Broken("sent log-probabilities that cannot be read");
  }
  if (std::optional<BackendFailure> failure = OnChoice(choice, &delta.tokens)) return failure;
  if (!length_.Take(delta.text.size(), delta.tokens.size())) {
    return Broken(
        max_tokens_ ? fmt::format("sent more than the {} tokens that were asked for", *max_tokens_)
                    : "sent an answer without an end");
  }
  if (!delta.text.empty() || !delta.tokens.empty()) sink->OnDelta(std::move(delta));
  return TakeFinish(choice);
}

std::string OpenAiReply::TakeText(const Json& choice) {
  const Json& delta = Member(choice, "delta");
  std::string_view thought = Text(Member(delta, "reasoning_content"));
  // Some servers send both, with the same text.
  if (thought.empty()) thought = Text(Member(delta, "reasoning"));
  std::string_view content = Text(Member(choice, "text"));
  if (content.empty()) content = Text(Member(delta, "content"));
  return thoughts_.Join(thought, content);
}

std::optional<BackendFailure> OpenAiReply::TakeFinish(const Json& choice) {
  const std::string_view reason = Text(Member(choice, "finish_reason"));
  if (reason.empty() || reason == "null") return std::nullopt;  // As some write none.
  for (const char* bad : {"abort", "error", "cancelled", "failed"}) {
    if (reason == bad) return Broken(fmt::format("ended its answer as '{}'", reason));
  }
  finished_ = true;
  // Whatever else it is called, such as "eos" or "content_filter", the model does not go on.
  end_.reason = reason == "length" ? FinishReason::kLength : FinishReason::kStop;
  return std::nullopt;
}

std::optional<BackendFailure> OpenAiReply::End(RemoteSink* /*sink*/, BackendEnd* end) {
  if (!complete_ && !finished_) {
    return Broken("ended its stream without a finish_reason and without [DONE]");
  }
  if (!finished_ && max_tokens_ && end_.completion_tokens.value_or(0) >= *max_tokens_) {
    end_.reason = FinishReason::kLength;
  }
  *end = end_;
  return std::nullopt;
}

// --- The request.

StatusOr<WireRequest> OpenAiWire::Write(const Request& request, const ResumePoint* resume) const {
  if (Status status = CheckStreamable(request); !status.ok()) return status;
  OrderedJson body = OrderedJson::object();
  const std::string& model = model_.empty() ? request.model : model_;
  if (!model.empty()) body["model"] = model;
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&request.prompt)) {
    body["messages"] = Messages(*messages);
  } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    body["prompt"] = *ids;
  } else {
    body["prompt"] = std::get<std::string>(request.prompt);
  }
  if (request.max_tokens) body["max_tokens"] = *request.max_tokens;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  WriteParameters(request, Known(), &body);
  if (request.logprobs) {
    const int32_t top = AskedLogprobs(*request.logprobs);
    body["logprobs"] = IsChat(request) ? OrderedJson(true) : OrderedJson(top);
    if (IsChat(request)) body["top_logprobs"] = top;
  }
  if (Status status = AddFields(request, resume, &body); !status.ok()) return status;
  return WireRequest{IsChat(request) ? "/v1/chat/completions" : "/v1/completions", Dump(body)};
}

std::unique_ptr<WireReply> OpenAiWire::MakeReply(const Request& request) const {
  return std::make_unique<OpenAiReply>(request);
}

std::vector<std::string> OpenAiWire::Unknown(const Request& request) const {
  return UnknownParameters(request, Known());
}

Status ReadModels(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> list = ReadDocument(body, "its list of models");
  if (!list.ok()) {
    return {StatusCode::kUnavailable, "it sent no list of models: " + list.status().message()};
  }
  if (!Member(*list, "data").is_array()) {
    return {StatusCode::kUnavailable, "it sent no list of models"};
  }
  facts->models = ModelIds(*list);
  return {};
}

// --- The kind "openai".

namespace {

// Servers whose own fields are known, as the list of models names them in "owned_by".
enum class Family { kOther, kVllm, kSglang, kLmStudio };

Family FamilyOf(std::string_view owner) {
  if (owner == "vllm") return Family::kVllm;
  if (owner == "sglang") return Family::kSglang;
  if (owner == "organization_owner") return Family::kLmStudio;
  return Family::kOther;
}

// OpenAI's own fields, and then those of vLLM, of which SGLang has all but the last one.
constexpr ParameterName kVllmNames[] = {
    {Parameter::kTemperature, "temperature"},
    {Parameter::kTopP, "top_p"},
    {Parameter::kPresencePenalty, "presence_penalty"},
    {Parameter::kFrequencyPenalty, "frequency_penalty"},
    {Parameter::kSeed, "seed"},
    {Parameter::kLogitBias, "logit_bias"},
    {Parameter::kStop, "stop"},
    {Parameter::kTopK, "top_k"},
    {Parameter::kMinP, "min_p"},
    {Parameter::kRepetitionPenalty, "repetition_penalty"},
    {Parameter::kMinTokens, "min_tokens"},
    {Parameter::kStopTokenIds, "stop_token_ids"},
    {Parameter::kIgnoreEos, "ignore_eos"},
    {Parameter::kCacheSalt, "cache_salt"},
};
constexpr size_t kOpenAiNames = 7;

constexpr ParameterName kLmStudioNames[] = {
    {Parameter::kTemperature, "temperature"},
    {Parameter::kTopP, "top_p"},
    {Parameter::kTopK, "top_k"},
    {Parameter::kPresencePenalty, "presence_penalty"},
    {Parameter::kFrequencyPenalty, "frequency_penalty"},
    {Parameter::kRepetitionPenalty, "repeat_penalty"},
    {Parameter::kSeed, "seed"},
    {Parameter::kLogitBias, "logit_bias"},
    {Parameter::kStop, "stop"},
};

Status ReadVllmMetrics(std::string_view text, BackendFacts* facts) {
  facts->running = MetricCount(text, "vllm:num_requests_running");
  facts->waiting = MetricCount(text, "vllm:num_requests_waiting");
  std::optional<double> used = MetricSum(text, "vllm:kv_cache_usage_perc");
  if (!used) used = MetricSum(text, "vllm:gpu_cache_usage_perc");
  if (used) facts->free_memory = std::clamp(1 - *used, 0.0, 1.0);
  return {};
}

Status ReadSglangMetrics(std::string_view text, BackendFacts* facts) {
  facts->running = MetricCount(text, "sglang:num_running_reqs");
  facts->waiting = MetricCount(text, "sglang:num_queue_reqs");
  const std::optional<double> used = MetricSum(text, "sglang:token_usage");
  if (used) facts->free_memory = std::clamp(1 - *used, 0.0, 1.0);
  return {};
}

// Any server of OpenAI's API. Until its list of models was read it gets OpenAI's fields alone: some
// servers reject others.
class OpenAiServer final : public OpenAiWire {
 public:
  using OpenAiWire::OpenAiWire;

  std::vector<WireProbe> Probes() override {
    std::vector<WireProbe> probes = {
        {"/v1/models", true, [this](auto body, auto* facts) { return ReadList(body, facts); }}};
    const Family family = family_;
    if (family == Family::kVllm) probes.push_back({"/metrics", false, ReadVllmMetrics});
    if (family == Family::kSglang) probes.push_back({"/metrics", false, ReadSglangMetrics});
    return probes;
  }

 private:
  std::span<const ParameterName> Known() const override {
    const std::span<const ParameterName> vllm = kVllmNames;
    switch (family_.load()) {
      case Family::kVllm:
        return vllm;
      case Family::kSglang:
        return vllm.first(vllm.size() - 1);
      case Family::kLmStudio:
        return kLmStudioNames;
      case Family::kOther:
        break;
    }
    return vllm.first(kOpenAiNames);
  }

  Status AddFields(const Request& request, const ResumePoint*, OrderedJson* body) const override {
    if (Status status = CheckFromTheStart(request); !status.ok()) return status;
    const Family family = family_;
    if (family != Family::kVllm && family != Family::kSglang) return {};
    // There -1 is all tokens; 0 was an error for long.
    if (const auto top_k = body->find("top_k"); top_k != body->end() && *top_k == 0) *top_k = -1;
    // There an absent one means 16, and null what the context leaves.
    if (!IsChat(request) && !request.max_tokens) (*body)["max_tokens"] = nullptr;
    return {};
  }

  Status ReadList(std::string_view body, BackendFacts* facts) {
    Status status = ReadModels(body, facts);
    if (!status.ok()) return status;
    const StatusOr<Json> list = ReadDocument(body, "its list of models");
    const Json& data = Member(*list, "data");
    family_ = data.empty() ? Family::kOther : FamilyOf(Text(Member(data[0], "owned_by")));
    return {};
  }

  std::atomic<Family> family_ = Family::kOther;
};

}  // namespace

std::unique_ptr<WireFormat> MakeOpenAi(std::string model) {
  return std::make_unique<OpenAiServer>(std::move(model));
}

}  // namespace ropeway::gateway::wire
