// For the tests of wire formats: a sink that keeps what it gets, and streams in pieces.
#ifndef ROPEWAY_API_TEST_WIRE_H_
#define ROPEWAY_API_TEST_WIRE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/wire_format.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api::wire {

// What a wire format gave.
struct GivenDeltas {
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> calls;
  std::vector<std::string> pieces;  // Of text, one for each delta.
  std::vector<OutputToken> tokens;

  WireReply::DeltaFn Take() {
    return [this](Delta delta) {
      text += delta.text;
      reasoning += delta.reasoning;
      for (const ToolCallDelta& more : delta.tool_calls) TakeCall(more);
      pieces.push_back(std::move(delta.text));
      tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
    };
  }

 private:
  void TakeCall(const ToolCallDelta& more) {
    const auto index = static_cast<size_t>(more.index);
    const bool begins = !more.name.empty();
    ASSERT_TRUE(begins ? index == calls.size() && !more.id.empty() : index < calls.size());
    ASSERT_TRUE(begins || (more.id.empty() && !more.arguments.empty()));
    if (begins) calls.push_back({more.id, more.name, ""});
    calls[index].arguments += more.arguments;
  }
};

// "id name(arguments) ..." of calls.
inline std::string Shown(const std::vector<ToolCall>& calls) {
  std::string shown;
  for (const ToolCall& call : calls) {
    shown += call.id + " " + call.name + "(" + call.arguments + ") ";
  }
  return shown;
}

// A stream as it was read.
struct ReadStream {
  GivenDeltas sink;
  std::optional<Outcome> failure;
  bool complete = false;
  Finish end;  // Without a failure.
};

// Reads `body`, cut into pieces of `cut` bytes, as the answer to `request`.
inline ReadStream ReadInPieces(const WireFormat& wire, const Request& request,
                               std::string_view body, size_t cut) {
  ReadStream read;
  const std::unique_ptr<WireReply> reply = wire.MakeReply(request);
  while (!body.empty() && !read.failure && !reply->complete()) {
    const std::string_view piece = body.substr(0, cut);
    body.remove_prefix(piece.size());
    // A copy of its own, so that a sanitizer sees what reads behind it.
    read.failure = reply->Feed(std::string(piece), read.sink.Take());
  }
  read.complete = reply->complete();
  if (read.failure) return read;
  Outcome outcome = reply->End(read.sink.Take());
  read.end = outcome.finish;
  if (!outcome.status.ok()) read.failure = std::move(outcome);
  return read;
}

inline Request CompletionRequest(std::string prompt = "Once") {
  Request request;
  request.prompt = std::move(prompt);
  request.model = "asked";
  request.max_tokens = 8;
  request.sampling.given = SamplingParams::kNoneGiven;
  return request;
}

// Every parameter is given.
inline Request EverythingGiven() {
  Request request = CompletionRequest();
  SamplingParams& s = request.sampling;
  s.given = SamplingParams::kAllGiven;
  s.temperature = 0.7F;
  s.top_k = 0;
  s.top_p = 0.9F;
  s.min_p = 0.05F;
  s.typical_p = 0.5F;
  s.presence_penalty = 0.1F;
  s.frequency_penalty = -0.2F;
  s.repetition_penalty = 1.1F;
  s.seed = 7;
  s.logit_bias = {{5, -100.0F}};
  s.min_tokens = 2;
  request.stop = {"END"};
  request.stop_token_ids = {3};
  request.ignore_eos = true;
  request.cache_salt = "salt";
  return request;
}

inline Request ChatRequest() {
  Request request = CompletionRequest();
  request.prompt = Chat{.messages = {{"system", "Be brief."}, {"user", "Hi"}}};
  return request;
}

// The body that `wire` writes for a request that it can ask for; "null" for another.
inline std::string WrittenBody(const WireFormat& wire, const Request& request) {
  StatusOr<WireRequest> written = wire.Write(request);
  EXPECT_TRUE(written.ok()) << written.status().message();
  return written.ok() ? written->body : "null";
}

// A stream of server-sent events with these payloads, and [DONE].
inline std::string Events(const std::vector<std::string>& payloads, bool done = true) {
  std::string text;
  for (const std::string& payload : payloads) text += "data: " + payload + "\n\n";
  return done ? text + "data: [DONE]\n\n" : text;
}

// Lines of JSON.
inline std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The answers to `wire`'s probes, each read in order; the first failure, or OK.
inline Status ReadProbes(WireFormat* wire,
                         const std::vector<std::pair<std::string, std::string>>& answers,
                         BackendFacts* facts) {
  for (const WireProbe& probe : wire->Probes()) {
    const auto answer = std::find_if(answers.begin(), answers.end(),
                                     [&](const auto& one) { return one.first == probe.path; });
    if (answer == answers.end()) continue;
    Status status = probe.read(answer->second, facts);
    if (!status.ok() && probe.need == WireProbe::Need::kGoodAnswer) return status;
  }
  return {};
}

inline std::vector<std::string> ProbePaths(WireFormat* wire) {
  std::vector<std::string> paths;
  for (const WireProbe& probe : wire->Probes()) paths.push_back(probe.path);
  return paths;
}

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_TEST_WIRE_H_
