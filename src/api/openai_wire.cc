#include "api/openai_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api/output_format.h"
#include "api/parameter_json.h"
#include "api/wire_chat.h"
#include "api/wire_embedding.h"
#include "base/chat_size.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// Whether the text, of whatever case and with whatever marks around it, is a word that servers send
// to keep a connection alive.
bool IsPing(std::string_view text) {
  constexpr size_t kMostBytes = 24;
  if (text.size() > kMostBytes) return false;
  std::string letters;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    if (lower >= 'a' && lower <= 'z') letters += lower;
  }
  return letters == "ping" || letters == "heartbeat" || letters == "keepalive";
}

}  // namespace

// --- The answer.

std::optional<Outcome> StreamError(const Json& event, bool is_error) {
  const Json& member = Member(event, "error");
  // As older vLLMs write it.
  is_error = is_error || Text(Member(event, "object")) == "error";
  const bool none = member.is_null() || member == false || member == "";
  if (none && !is_error) return std::nullopt;
  return ErrorFailure("ended its stream with an error: ", event);
}

OpenAiReply::OpenAiReply(const Request& request)
    : chat_(IsChat(request)),
      logprobs_(request.logprobs),
      max_tokens_(request.max_tokens),
      stops_(request.stop),
      length_(request.max_tokens),
      answer_(request) {}

std::optional<Outcome> OpenAiReply::Feed(std::string_view bytes, const DeltaFn& give) {
  if (shape_ == Shape::kStream) return FeedStream(bytes, give);
  start_ += bytes;
  if (shape_ == Shape::kUnknown) {
    constexpr std::string_view kBefore = "\xEF\xBB\xBF \t\r\n";
    const size_t first = start_.find_first_not_of(kBefore, looked_at_);
    looked_at_ = start_.size();
    if (first == std::string::npos && start_.size() <= kMaxEventBytes) return std::nullopt;
    // No line of a stream begins so.
    const bool document =
        first != std::string::npos && (start_[first] == '{' || start_[first] == '[');
    shape_ = document ? Shape::kDocument : Shape::kStream;
    if (!document) return FeedStream(std::exchange(start_, std::string()), give);
  }
  if (start_.size() <= kMaxWholeBytes) return std::nullopt;
  return Broken(fmt::format("sent an answer of more than {} bytes", size_t{kMaxWholeBytes}));
}

std::optional<Outcome> OpenAiReply::FeedStream(std::string_view bytes, const DeltaFn& give) {
  std::optional<Outcome> failure;
  const bool fits = events_.Feed(bytes, [&](const net::SseEvent& event) {
    if (!failure && !complete_) failure = TakeEvent(event, give);
  });
  if (!fits && !failure && !complete_) {
    failure = Broken(fmt::format("sent an event of more than {} bytes", size_t{kMaxEventBytes}));
  }
  return failure;
}

// An event's type does not decide whether it is read: some servers call the pieces of an answer by
// names of their own, and no client that follows OpenAI's looks at them.
std::optional<Outcome> OpenAiReply::TakeEvent(const net::SseEvent& event, const DeltaFn& give) {
  const std::string_view data = Trimmed(event.data);
  if (data == "[DONE]") {
    if (!has_choice_) return Broken("ended its stream without an answer");
    complete_ = true;
    return std::nullopt;
  }
  const bool is_error = event.type == "error";
  const bool is_json = data.starts_with('{') || data.starts_with('[');
  if (is_error && !is_json) {
    return Broken("ended its stream with an error: " + std::string(data));
  }
  const bool is_plain = event.type.empty() || event.type == "message";
  if (data.empty() || data == "null" || IsPing(data) || (!is_plain && !is_json))
    return length_.TakeIdle();
  const StatusOr<Json> read = ReadDocument(data, "an event of its stream");
  if (!read.ok()) return Broken("sent a broken answer: " + read.status().message());
  if (!read->is_object()) return Broken("sent an event that is not a JSON object");
  if (std::optional<Outcome> failure = StreamError(*read, is_error)) return failure;
  return TakeObject(*read, data, give);
}

std::optional<Outcome> OpenAiReply::TakeWhole(const DeltaFn& give) {
  const StatusOr<Json> read = ReadDocument(start_, "its answer");
  if (!read.ok()) return Broken("sent a broken answer: " + read.status().message());
  if (Member(*read, "choices").is_null() || StreamError(*read, false)) {
    // Some servers tell of errors with the status of success.
    return ErrorFailure("answered with an error: ", *read);
  }
  if (std::optional<Outcome> failure = TakeObject(*read, start_, give)) return failure;
  if (!has_choice_) return Broken("sent an empty answer");
  complete_ = true;
  return std::nullopt;
}

std::optional<Outcome> OpenAiReply::TakeObject(const Json& event, std::string_view source,
                                               const DeltaFn& give) {
  FieldReader fields;
  TakeUsage(event, &fields);
  OnEvent(event, &fields);
  const Json& choices = fields.List(Member(event, "choices"), "choices");
  if (choices.empty() || finished_) {
    if (!fields.fault().empty()) return Broken(fields.fault());
    // The answer is complete: behind it comes its usage, and nothing else is taken.
    if (finished_) complete_ = length_.TakeIdle().has_value();
    return finished_ ? std::nullopt : length_.TakeIdle();
  }
  if (choices.size() > 1) return Broken("answered with a choice that was not asked for");
  const Json& choice = fields.Object(choices[0], "choices");
  for (const char* key : {"text", "delta", "message", "finish_reason"}) {
    has_choice_ = has_choice_ || !Member(choice, key).is_null();
  }
  if (IsOfAnotherKind(choice)) {
    return Broken("answered a chat with a completion, or a completion with a chat");
  }
  Delta delta;
  ReadSaid(choice, source, &fields, &delta);
  if (logprobs_) {
    ReadLogprobs(Member(choice, "logprobs"), *logprobs_, &fields, &token_bytes_, &delta.tokens);
  }
  OnChoice(choice, &fields, &delta.tokens);
  const std::string_view reason = fields.Text(Member(choice, "finish_reason"), "finish_reason");
  if (!fields.fault().empty()) return Broken(fields.fault());
  if (std::optional<Outcome> failure = Give(std::move(delta), give)) return failure;
  TakeStop(Member(choice, "stop_reason"));
  return TakeFinish(reason);
}

void OpenAiReply::TakeUsage(const Json& event, FieldReader* fields) {
  const Json& usage = fields->Object(Member(event, "usage"), "usage");
  const auto take = [&](const Json& of, const char* key, int32_t* to) {
    if (const std::optional<int32_t> read = fields->Count(Member(of, key), key)) *to = *read;
  };
  take(usage, "prompt_tokens", &end_.usage.prompt_tokens);
  take(usage, "completion_tokens", &end_.usage.completion_tokens);
  // llama-server's own field, for those that have it alone; then OpenAI's.
  take(fields->Object(Member(event, "timings"), "timings"), "cache_n", &end_.usage.cached_tokens);
  const auto details = [&](const char* key) -> const Json& {
    return fields->Object(Member(usage, key), key);
  };
  take(details("prompt_tokens_details"), "cached_tokens", &end_.usage.cached_tokens);
  take(details("completion_tokens_details"), "reasoning_tokens", &end_.usage.reasoning_tokens);
}

bool OpenAiReply::IsOfAnotherKind(const Json& choice) const {
  const Json& text = Member(choice, "text");
  const Json& delta = Member(choice, "delta");
  const Json& message = delta.is_null() ? Member(choice, "message") : delta;
  const Json& other = chat_ ? text : message;
  return (chat_ ? message : text).is_null() && !other.empty() && other != "";
}

void OpenAiReply::ReadSaid(const Json& choice, std::string_view source, FieldReader* fields,
                           Delta* delta) {
  const std::optional<std::string> marked = MarkHalves(source);
  if (!marked) return ReadMarked(choice, false, fields, delta);
  const StatusOr<Json> again = ReadDocument(*marked, "its answer");
  if (!again.ok()) return fields->Fault("choices", "with half of a surrogate pair");
  ReadMarked(Member(*again, "choices")[0], true, fields, delta);
}

void OpenAiReply::ReadMarked(const Json& choice, bool marked, FieldReader* fields, Delta* delta) {
  std::string thought;
  std::string text;
  const Json* calls = nullptr;
  // Some servers write completions as chats, with an empty `text` beside.
  fields->Said(Member(choice, "text"), "text", &text, &thought);
  const auto read = [&](const char* name) {
    const Json& said = fields->Object(Member(choice, name), name);
    fields->Said(Member(said, "reasoning_content"), "reasoning_content", &thought, &thought);
    // Some servers send both, with the same text.
    if (thought.empty()) fields->Said(Member(said, "reasoning"), "reasoning", &thought, &thought);
    if (text.empty()) fields->Said(Member(said, "content"), "content", &text, &thought);
    if (text.empty()) fields->Said(Member(said, "refusal"), "refusal", &text, &thought);
    calls = &Member(said, "tool_calls");
    return !text.empty() || !thought.empty() || !calls->empty();
  };
  const bool pieces = read("delta");
  has_pieces_ = has_pieces_ || pieces;
  // Behind pieces some servers send the whole answer once more.
  if (!has_pieces_) read("message");
  answer_.Add(std::move(thought), std::move(text), marked, delta);
  answer_.AddCalls(*calls, marked, !has_pieces_, fields, delta);
}

std::optional<Outcome> OpenAiReply::Give(Delta delta, const DeltaFn& give) {
  if (!delta.says() && delta.tokens.empty()) return length_.TakeIdle();
  if (!length_.Take(base::TextBytes(delta), delta.tokens.size())) return TooLong(max_tokens_);
  give(std::move(delta));
  return std::nullopt;
}

// vLLM's and Ropeway's: the stop string, or the id of an end token.
void OpenAiReply::TakeStop(const Json& stop) {
  if (!stop.is_string()) return;
  const auto found = std::ranges::find(stops_, stop.get_ref<const std::string&>());
  if (found != stops_.end()) end_.stop = static_cast<int32_t>(found - stops_.begin());
}

std::optional<Outcome> OpenAiReply::TakeFinish(std::string_view reason) {
  if (reason.empty() || reason == "null") return std::nullopt;  // As some write none.
  finished_ = true;
  calls_ = reason == "tool_calls";
  return ReadReason(reason, &end_.reason);
}

Outcome OpenAiReply::End(const DeltaFn& give) {
  std::optional<Outcome> failure;
  if (shape_ == Shape::kDocument) {
    failure = TakeWhole(give);
  } else if (!complete_) {
    // Some servers do not end their last event.
    failure = FeedStream("\n\n", give);
  }
  if (failure) return *std::move(failure);
  if (!complete_ && !finished_) {
    return Broken("ended its stream without a finish_reason and without [DONE]");
  }
  Delta rest;
  answer_.Rest(calls_, &rest);
  if (rest.says()) give(std::move(rest));
  if (!finished_ && max_tokens_ && std::max(end_.usage.completion_tokens, 0) >= *max_tokens_) {
    end_.reason = FinishReason::kLength;
  }
  return Outcome::Ended(end_);
}

// --- The request.

StatusOr<WireRequest> OpenAiWire::Write(const Request& request) const {
  OrderedJson body = OrderedJson::object();
  std::string model = ModelName();
  if (model.empty()) model = request.model;
  if (!model.empty()) body["model"] = std::move(model);
  if (request.embedding) {
    if (Status status = WriteInput(request, &body); !status.ok()) return status;
    if (Status status = AddEmbeddingFields(request, &body); !status.ok()) return status;
    return WireRequest{"/v1/embeddings", Dump(body)};
  }
  if (Status status = CheckStreamable(request); !status.ok()) return status;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    if (Status status = WriteChat(*chat, Kind(), &body); !status.ok()) return status;
  } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    body["prompt"] = *ids;
  } else {
    body["prompt"] = std::get<std::string>(request.prompt);
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  WriteParameters(request, Kind(), &body);
  if (request.logprobs) {
    const int32_t top = AskedLogprobs(*request.logprobs);
    body["logprobs"] = IsChat(request) ? OrderedJson(true) : OrderedJson(top);
    if (IsChat(request)) body["top_logprobs"] = top;
  }
  if (Status status = WriteOutputFormat(request.format, Kind(), &body); !status.ok()) return status;
  if (Status status = AddFields(request, &body); !status.ok()) return status;
  return WireRequest{IsChat(request) ? "/v1/chat/completions" : "/v1/completions", Dump(body)};
}

Status OpenAiWire::AddEmbeddingFields(const Request& request, OrderedJson* body) const {
  (*body)["encoding_format"] = "float";
  if (!request.embedding->normalize) {
    return {StatusCode::kUnimplemented, "it normalises all embeddings", "normalize"};
  }
  return CheckPooling(request);
}

std::string OpenAiWire::ModelName() const {
  const std::lock_guard lock(mu_);
  return reported_.empty() ? configured_.name : reported_;
}

bool OpenAiWire::Recognize(const std::vector<std::string>& names) {
  constexpr size_t kMostBytes = 256;  // It goes into every request.
  const std::string& name = configured_.name;
  const bool has = name.empty() || std::find(names.begin(), names.end(), name) != names.end();
  const bool is_other =
      !has && configured_.may_differ && names.size() == 1 && names.front().size() <= kMostBytes;
  const std::lock_guard lock(mu_);
  reported_ = is_other ? names.front() : std::string();
  return has || is_other;
}

bool OpenAiWire::IsAnswer(std::string_view media_type) const {
  // The body tells a stream from a document; what these types are not, is neither.
  constexpr std::string_view kTypes[] = {"text/event-stream", "application/json", "text/plain",
                                         "application/octet-stream", ""};
  return std::find(std::begin(kTypes), std::end(kTypes), media_type) != std::end(kTypes);
}

std::unique_ptr<WireReply> OpenAiWire::MakeReply(const Request& request) const {
  return request.embedding ? MakeEmbeddingReply() : MakeStreamReply(request);
}

std::unique_ptr<WireReply> OpenAiWire::MakeStreamReply(const Request& request) const {
  return std::make_unique<OpenAiReply>(request);
}

std::vector<std::string> OpenAiWire::Unknown(const Request& request) const {
  return UnknownParameters(request, Kind());
}

Status ReadModels(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> list = ReadDocument(body, "its list of models");
  if (!list.ok()) {
    return {StatusCode::kUnavailable, "it sent no list of models: " + list.status().message()};
  }
  StatusOr<std::vector<std::string>> ids = ModelIds(*list);
  if (!ids.ok()) return ids.status();
  facts->models = *std::move(ids);
  return {};
}

// --- The kind "openai".

namespace {

// Servers whose own fields are known, as the list of models names them in "owned_by".
core::ServerKind KindOf(std::string_view owner) {
  if (owner == "vllm") return core::kVllm;
  if (owner == "sglang") return core::kSglang;
  if (owner == "organization_owner") return core::kLmStudio;
  return core::kOpenAi;
}

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
    // What clients call a model that has a name does not depend on the list, which some servers do
    // not have.
    using Need = WireProbe::Need;
    std::vector<WireProbe> probes = {
        {"/v1/models", configured().name.empty() ? Need::kGoodAnswer : Need::kAnyAnswer,
         [this](auto body, auto* facts) { return ReadList(body, facts); },
         "if the server has no list of models, name the model with model=NAME"}};
    const core::ServerKind kind = kind_;
    if (kind == core::kVllm) probes.push_back({"/metrics", Need::kNone, ReadVllmMetrics});
    if (kind == core::kSglang) probes.push_back({"/metrics", Need::kNone, ReadSglangMetrics});
    return probes;
  }

 private:
  core::ServerKind Kind() const override { return kind_; }

  Status AddFields(const Request& request, OrderedJson* body) const override {
    if (Status status = CheckFromTheStart(request); !status.ok()) return status;
    const core::ServerKind kind = kind_;
    if (kind != core::kVllm && kind != core::kSglang) return {};
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
    FieldReader fields;
    const Json& entries = ModelEntries(*list, &fields);
    // Whose it is, is told by whatever is written there.
    const core::ServerKind kind =
        entries.empty() ? core::kOpenAi : KindOf(Text(Member(entries[0], "owned_by")));
    kind_ = kind;
    // These have no models but those that they list.
    if (kind == core::kVllm || kind == core::kSglang) Recognize(facts->models);
    return {};
  }

  std::atomic<core::ServerKind> kind_ = core::kOpenAi;
};

}  // namespace

std::unique_ptr<WireFormat> MakeOpenAi(ServerModel model) {
  return std::make_unique<OpenAiServer>(std::move(model));
}

}  // namespace ropeway::api::wire
