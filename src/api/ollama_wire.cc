// Ollama's own API: /api/chat and /api/generate, whose streams are lines of JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "api/output_format.h"
#include "api/parameter_json.h"
#include "api/wire_answer.h"
#include "api/wire_chat.h"
#include "api/wire_embedding.h"
#include "api/wire_fields.h"
#include "api/wire_format.h"
#include "api/wire_json.h"
#include "base/chat_size.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Reads a stream of lines. Text comes from `message.content` or `response`, thoughts from
// `thinking`, whole calls of tools from `tool_calls`. The stream ends with the line whose `done` is
// true, or with one that has an `error`.
class OllamaReply final : public WireReply {
 public:
  explicit OllamaReply(const Request& request)
      : chat_(std::holds_alternative<Chat>(request.prompt)),
        logprobs_(request.logprobs),
        max_tokens_(request.max_tokens),
        length_(request.max_tokens),
        answer_(request) {}

  std::optional<Outcome> Feed(std::string_view bytes, const DeltaFn& give) override {
    std::optional<Outcome> failure;
    while (!bytes.empty() && !failure && !done_) {
      const size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (line_.size() + part.size() > kMaxEventBytes) {
        return Broken(fmt::format("sent a line of more than {} bytes", size_t{kMaxEventBytes}));
      }
      if (end == std::string_view::npos) {
        line_ += part;
        return std::nullopt;
      }
      bytes.remove_prefix(end + 1);
      if (line_.empty()) {
        failure = TakeLine(part, give);
      } else {
        line_ += part;
        failure = TakeLine(line_, give);
        line_.clear();
      }
    }
    return failure;
  }

  bool complete() const override { return done_; }

  Outcome End(const DeltaFn& give) override {
    // Proxies cut the last line's end off, and errors of some have none.
    if (!done_ && !line_.empty()) {
      if (std::optional<Outcome> failure = TakeLine(line_, give)) return *std::move(failure);
    }
    if (!done_) return Broken("ended its stream without a line that has 'done': true");
    Delta rest;
    answer_.Rest(false, &rest);
    if (rest.says()) give(std::move(rest));
    return Outcome::Ended(end_);
  }

 private:
  std::optional<Outcome> TakeLine(std::string_view text, const DeltaFn& give) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (std::exchange(at_start_, false) && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return length_.TakeIdle();
    const StatusOr<Json> line = ReadDocument(text, "a line of its stream");
    if (!line.ok()) return Broken("sent a broken answer: " + line.status().message());
    if (!line->is_object()) return Broken("sent a line that is not a JSON object");
    const Json& error = Member(*line, "error");
    if (!error.is_null() && error != "" && error != false) {
      return ErrorFailure("ended its stream with an error: ", *line);
    }
    FieldReader fields;
    if (!Member(*line, chat_ ? "response" : "message").is_null()) {
      return Broken("answered a chat with a completion, or a completion with a chat");
    }
    Delta delta;
    ReadSaid(*line, text, &fields, &delta);
    if (logprobs_) {
      ReadLogprobs(Member(*line, "logprobs"), *logprobs_, &fields, &token_bytes_, &delta.tokens);
    }
    const bool done = fields.Flag(Member(*line, "done"), "done").value_or(false);
    std::optional<Outcome> failed;
    if (done) failed = ReadEnd(*line, &fields);
    if (!fields.fault().empty()) return Broken(fields.fault());
    if (failed) return failed;
    done_ = done;
    if (!delta.says() && delta.tokens.empty()) return length_.TakeIdle();
    if (!length_.Take(base::TextBytes(delta), delta.tokens.size())) return TooLong(max_tokens_);
    give(std::move(delta));
    return std::nullopt;
  }

  // What a line, which was read from `source`, says.
  void ReadSaid(const Json& line, std::string_view source, FieldReader* fields, Delta* delta) {
    const std::optional<std::string> marked = MarkHalves(source);
    if (!marked) return ReadMarked(line, false, fields, delta);
    const StatusOr<Json> again = ReadDocument(*marked, "a line of its stream");
    if (!again.ok()) return fields->Fault("message", "with half of a surrogate pair");
    ReadMarked(*again, true, fields, delta);
  }

  void ReadMarked(const Json& line, bool marked, FieldReader* fields, Delta* delta) {
    std::string thought;
    std::string text;
    const Json& said = chat_ ? fields->Object(Member(line, "message"), "message") : line;
    const char* const name = chat_ ? "content" : "response";
    fields->Said(Member(said, "thinking"), "thinking", &thought, &thought);
    fields->Said(Member(said, name), name, &text, &thought);
    answer_.Add(std::move(thought), std::move(text), marked, delta);
    answer_.AddCalls(Member(said, "tool_calls"), marked, true, fields, delta);
  }

  std::optional<Outcome> ReadEnd(const Json& line, FieldReader* fields) {
    const auto count = [&](const char* key) {
      return fields->Count(Member(line, key), key).value_or(Usage::kUnknown);
    };
    end_.usage.prompt_tokens = count("prompt_eval_count");
    end_.usage.completion_tokens = count("eval_count");
    end_.usage.cached_tokens = count("prompt_eval_cached_count");
    const std::string_view reason = fields->Text(Member(line, "done_reason"), "done_reason");
    // Old servers give no reason.
    const bool full = max_tokens_ && std::max(end_.usage.completion_tokens, 0) >= *max_tokens_;
    if (reason.empty() && full) {
      end_.reason = FinishReason::kLength;
      return std::nullopt;
    }
    return ReadReason(reason, &end_.reason);
  }

  const bool chat_;
  const std::optional<int32_t> logprobs_;
  const std::optional<int32_t> max_tokens_;
  LengthGuard length_;
  AnswerReader answer_;
  Finish end_ = Outcome::Unsaid();
  std::string line_;          // One whose end has not come.
  uint64_t token_bytes_ = 0;  // The bytes of the tokens so far.
  bool at_start_ = true;      // No line has come.
  bool done_ = false;
};

Status ReadVersion(std::string_view body, BackendFacts* /*facts*/) {
  const StatusOr<Json> version = ReadDocument(body, "its version");
  if (version.ok() && !Text(Member(*version, "version")).empty()) return {};
  return {StatusCode::kUnavailable, "it sent no 'version' at /api/version: it is not Ollama"};
}

Status ReadTags(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> tags = ReadDocument(body, "its list of models");
  if (!tags.ok()) return tags.status();
  StatusOr<std::vector<std::string>> names = ModelIds(*tags);
  if (!names.ok()) return names.status();
  facts->models = *std::move(names);
  return {};
}

class OllamaWire final : public WireFormat {
 public:
  explicit OllamaWire(std::string model) : model_(std::move(model)) {}

  StatusOr<WireRequest> Write(const Request& request) const override {
    const auto* chat = std::get_if<Chat>(&request.prompt);
    const auto* text = std::get_if<std::string>(&request.prompt);
    if (chat == nullptr && text == nullptr) {
      return Status(StatusCode::kUnimplemented,
                    "it supports only a text or a chat as a prompt, not token ids", "prompt");
    }
    OrderedJson body = {{"model", model_.empty() ? request.model : model_}};
    if (request.embedding) return WriteEmbedding(request, std::move(body));
    if (Status status = CheckStreamable(request); !status.ok()) return status;
    if (Status status = CheckFromTheStart(request); !status.ok()) return status;
    if (chat != nullptr) {
      if (Status status = WriteChat(*chat, core::kOllama, &body); !status.ok()) return status;
    } else {
      body["prompt"] = *text;
      body["raw"] = true;  // No chat template around it.
    }
    body["stream"] = true;
    OrderedJson options = OrderedJson::object();
    WriteParameters(request, core::kOllama, &options);
    if (options.contains("seed")) options["seed"] = ShortSeed(SeedOf(request).value_or(0));
    if (!options.empty()) body["options"] = std::move(options);
    if (request.logprobs) {
      body["logprobs"] = true;
      body["top_logprobs"] = *request.logprobs;
    }
    if (Status status = WriteOutputFormat(request.format, core::kOllama, &body); !status.ok()) {
      return status;
    }
    return WireRequest{chat != nullptr ? "/api/chat" : "/api/generate", Dump(body)};
  }

  std::unique_ptr<WireReply> MakeReply(const Request& request) const override {
    if (request.embedding) return MakeEmbeddingReply();
    return std::make_unique<OllamaReply>(request);
  }

  bool IsAnswer(std::string_view media_type) const override {
    return media_type == "application/x-ndjson" || media_type == "application/json" ||
           media_type == "text/plain" || media_type.empty();
  }

  // /api/ps, which lists the models in memory, tells nothing that a gateway acts on.
  std::vector<WireProbe> Probes() override {
    std::vector<WireProbe> probes;
    probes.push_back({"/api/version", WireProbe::Need::kGoodAnswer, ReadVersion});
    probes.push_back({"/api/tags", WireProbe::Need::kNone, ReadTags});
    return probes;
  }

  std::vector<std::string> Unknown(const Request& request) const override {
    return UnknownParameters(request, core::kOllama);
  }

 private:
  // Its older path is the one that does not normalise.
  static StatusOr<WireRequest> WriteEmbedding(const Request& request, OrderedJson body) {
    if (Status status = CheckPooling(request); !status.ok()) return status;
    const auto* text = std::get_if<std::string>(&request.prompt);
    if (text == nullptr) return NoChatToEmbed();
    if (!request.embedding->normalize) {
      body["prompt"] = *text;
      return WireRequest{"/api/embeddings", Dump(body)};
    }
    body["input"] = *text;
    body["truncate"] = request.embedding->truncate;
    return WireRequest{"/api/embed", Dump(body)};
  }

  const std::string model_;
};

}  // namespace

std::unique_ptr<WireFormat> MakeOllama(ServerModel model) {
  return std::make_unique<OllamaWire>(std::move(model.name));
}

}  // namespace ropeway::api::wire
