// What a server sends to the gateway, whatever its kind: the stream that answers a request, answers
// to probes, bodies of errors. However a stream is cut into packets, the same is read from it;
// nothing is read that was not asked for or that no server has; and whatever a prompt holds, what
// is written to the server is one JSON document.
//
// The first byte of an input says which kind of server it is (its two lowest bits, in the order of
// BackendKind), and of the request: bit 2: it is a chat; bit 3: it wants log-probabilities; bit 4:
// it has max_tokens; bits 5 to 7: what the server sends is also the arguments of a call, the
// parameters of a tool and variables of the template. The rest is what the server sends.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/wire_format.h"
#include "api/wire_json.h"
#include "base/json.h"
#include "base/random.h"
#include "base/utf8.h"
#include "fuzz/fuzz_target.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"

namespace ropeway::fuzz {
namespace {

using api::BackendKind;
using api::WireFormat;
using api::WireReply;
using api::WireRequest;

constexpr BackendKind kKinds[] = {BackendKind::kOpenAi, BackendKind::kLlamaCpp,
                                  BackendKind::kOllama, BackendKind::kRopeway};
// Small, so that inputs reach them.
constexpr int32_t kMaxTokens = 5;
constexpr int32_t kTopLogprobs = 2;
// An answer to so few tokens is not longer, with what servers may add.
constexpr size_t kMostTokens = 100;
constexpr size_t kMostBytes = 64'000;
constexpr int32_t kMostCalls = 128;

Request RequestOf(uint8_t options, const std::string& text) {
  Request request;
  request.prompt = text;
  if ((options & 4U) != 0) {
    Chat chat{.messages = {{"system", text}, {"assistant", text}, {"tool", text, text, text}}};
    chat.messages[1].reasoning_content = text;
    chat.messages[1].tool_calls = {{text, text, (options & 32U) != 0 ? text : "{}"}};
    chat.messages[2].part_sizes = {text.size() / 2, (text.size() - 1) / 2};
    chat.tools = {{text, text, (options & 64U) != 0 ? text : R"({"type":"object"})"}};
    if ((options & 128U) != 0) chat.template_arguments = text;
    request.prompt = std::move(chat);
  }
  if ((options & 8U) != 0) request.logprobs = kTopLogprobs;
  if ((options & 16U) != 0) request.max_tokens = kMaxTokens;
  request.sampling.seed = 0xFFFFFFFFFFFFFFFFU;
  request.sampling.logit_bias = {{5, -100.0F}};
  request.sampling.min_tokens = 2;
  request.stop = {text.substr(0, 16)};
  request.stop_token_ids = {3};
  request.ignore_eos = true;
  request.tenant = request.cache_scope = request.cache_salt = text.substr(0, 64);
  return request;
}

void CheckToken(const OutputToken& token, bool scored) {
  Require(token.id >= -1, "a token has no such id");
  Require(!std::isinf(token.logprob), "a log-probability is infinite");
  Require(scored || (token.bytes.empty() && token.top_logprobs.empty()), "nobody asked for scores");
  const std::vector<TokenLogprob>& top = token.top_logprobs;
  Require(top.size() <= static_cast<size_t>(kTopLogprobs), "more tokens than were asked for");
  Require(top.size() == token.top_bytes.size(), "a token without its bytes");
  Require(std::none_of(top.begin(), top.end(),
                       [](const TokenLogprob& one) { return std::isnan(one.logprob); }),
          "one of the most probable tokens has no probability");
  Require(std::is_sorted(top.begin(), top.end(),
                         [](const auto& a, const auto& b) { return a.logprob > b.logprob; }),
          "the most probable token is not the first");
}

std::string Noted(const OutputToken& token) {
  const auto bits = [](float value) { return std::to_string(std::bit_cast<uint32_t>(value)); };
  std::string text = " [" + std::to_string(token.id) + ' ' + token.bytes + ' ' +
                     bits(token.logprob) + ' ' + std::to_string(token.text_offset);
  for (size_t i = 0; i < token.top_logprobs.size(); ++i) {
    text += " (" + std::to_string(token.top_logprobs[i].id) + ' ' + token.top_bytes[i] + ' ' +
            bits(token.top_logprobs[i].logprob) + ')';
  }
  return text + ']';
}

std::string Noted(int32_t count) { return ' ' + std::to_string(count); }

// Notes all that it gets, and checks it.
class Notes {
 public:
  Notes(const Request& request, std::string* notes)
      : scored_(request.logprobs.has_value()), notes_(notes) {}

  void Take(const Delta& delta) {
    Require(delta.says() || !delta.tokens.empty(), "an empty delta");
    Require(delta.prompt_tokens.empty(), "nobody asked for the prompt's scores");
    TakeText(delta.reasoning);
    TakeText(delta.text);
    for (const ToolCallDelta& call : delta.tool_calls) TakeCall(call);
    for (const OutputToken& token : delta.tokens) {
      CheckToken(token, scored_);
      *notes_ += Noted(token);
    }
    *notes_ += '\n';
    tokens_ += delta.tokens.size();
  }

  bool is_long() const { return bytes_ > kMostBytes || tokens_ > kMostTokens; }

 private:
  void TakeText(const std::string& text) {
    Require(base::IsValidUtf8(text), "text that is not UTF-8");
    *notes_ += text + '|';
    bytes_ += text.size();
  }

  void TakeCall(const ToolCallDelta& call) {
    const bool begins = !call.name.empty();
    Require(begins == !call.id.empty(), "a name without an id, or an id without a name");
    Require(begins || !call.arguments.empty(), "an empty piece of a call");
    Require(begins ? call.index == calls_ : call.index >= 0 && call.index < calls_,
            "a call out of turn");
    if (begins) ++calls_;
    Require(calls_ <= kMostCalls, "more calls than an answer may have");
    *notes_ += Noted(call.index);
    for (const std::string* text : {&call.id, &call.name, &call.arguments}) TakeText(*text);
  }

  const bool scored_;
  std::string* const notes_;
  size_t bytes_ = 0;
  size_t tokens_ = 0;
  int32_t calls_ = 0;
};

void CheckFailure(const Outcome& failure) {
  const StatusCode code = failure.status.code();
  Require(code != StatusCode::kOk && code != StatusCode::kInternal, "a failure without a reason");
  Require(!failure.status.message().empty(), "a failure without a message");
  Require(failure.status.retry_after_seconds() >= 0, "a time to wait below 0");
}

void CheckEnd(const Finish& end) {
  Require(end.reason == FinishReason::kStop || end.reason == FinishReason::kLength, "the reason");
  for (const int32_t count :
       {end.usage.prompt_tokens, end.usage.completion_tokens, end.usage.cached_tokens}) {
    Require(count >= Usage::kUnknown, "a count below 0");
  }
  Require(end.usage.reasoning_tokens >= 0, "a count of thoughts below 0");
}

// All that is read of the answer to the request when `next` more bytes arrive at a time.
std::string Read(const WireFormat& wire, const Request& request, std::string_view bytes,
                 const std::function<size_t()>& next) {
  std::string notes;
  Notes taken(request, &notes);
  const auto give = [&](const Delta& delta) { taken.Take(delta); };
  const std::unique_ptr<WireReply> reply = wire.MakeReply(request);
  std::optional<Outcome> failure;
  while (!bytes.empty() && !failure && !reply->complete()) {
    const std::string piece(bytes.substr(0, next()));
    bytes.remove_prefix(piece.size());
    failure = reply->Feed(piece, give);
  }
  Outcome outcome = failure ? *failure : reply->End(give);
  Require(!request.max_tokens || !taken.is_long(), "an answer without an end");
  if (!outcome.status.ok()) {
    CheckFailure(outcome);
    return notes + "failed: " + std::to_string(static_cast<int>(outcome.kind)) + ' ' +
           outcome.status.message();
  }
  const Finish& end = outcome.finish;
  CheckEnd(end);
  return notes + "ended: " + FinishReasonName(end.reason) + Noted(end.usage.prompt_tokens) +
         Noted(end.usage.completion_tokens) + Noted(end.usage.cached_tokens) +
         Noted(end.usage.reasoning_tokens) + ' ' + std::to_string(end.seed);
}

void CheckFacts(const BackendFacts& facts) {
  Require(!facts.places || *facts.places >= 1, "a server without places");
  Require(!facts.running || *facts.running >= 0, "fewer than no requests run");
  Require(!facts.waiting || *facts.waiting >= 0, "fewer than no requests wait");
  Require(!facts.free_memory || (*facts.free_memory >= 0 && *facts.free_memory <= 1),
          "the free part of the memory");
  for (const std::string& name : facts.models) {
    Require(!name.empty() && base::IsValidUtf8(name), "a model's name");
  }
  for (const std::string* fact : {&facts.model_digest, &facts.numerics, &facts.limits}) {
    Require(base::IsValidUtf8(*fact), "a fact that is not UTF-8");
  }
}

// The server answers all questions with the same body.
void Probe(WireFormat* wire, std::string_view body) {
  BackendFacts facts;
  for (const api::WireProbe& probe : wire->Probes()) {
    Require(probe.path.starts_with('/'), "a probe's path");
    const Status status = probe.read(body, &facts);
    if (!status.ok()) RequireError(status);
  }
  CheckFacts(facts);
}

void Write(const WireFormat& wire, Request request) {
  if (wire.CanResume()) {
    request.resume_ids = {5, 6};
    request.sampling.seed = 9;
  }
  const StatusOr<WireRequest> written = wire.Write(request);
  if (!written.ok()) {
    RequireError(written.status());
    return;
  }
  Require(written->path.starts_with('/'), "a request's path");
  const StatusOr<nlohmann::json> body =
      base::ReadJson(written->body, {.max_depth = 80}, "the body");
  Require(body.ok() && body->is_object(), "what is written is no JSON object");
}

void CheckErrors(std::string_view body) {
  for (const int http_status : {400, 401, 404, 429, 500, 503}) {
    const Outcome failure = api::HttpFailure(http_status, body);
    CheckFailure(failure);
    Require(failure.kind == api::FailureKindOf(http_status), "another kind of failure");
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropeway::fuzz;
  if (size < 1) return 0;
  ropeway::base::SeededRandom random(data[0]);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto wire = ropeway::api::MakeWireFormat(kKinds[data[0] & 3U], {});
  const ropeway::Request request = RequestOf(data[0], bytes);
  const std::string whole = Read(*wire, request, bytes, [&] { return bytes.size(); });
  Require(whole == Read(*wire, request, bytes, [] { return size_t{1}; }),
          "another answer when it comes byte by byte");
  Require(whole == Read(*wire, request, bytes, [&] { return 1 + random.Next64() % 40; }),
          "another answer when it comes in pieces");
  Write(*wire, request);
  Probe(wire.get(), bytes);
  Write(*wire, request);  // As the server said that it wants it.
  CheckErrors(bytes);
  return 0;
}
