#include "api/openai_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"

namespace ropeway::api {
namespace {

using Json = nlohmann::ordered_json;

// The usage of all choices together, in 64 bits: a gateway's backends may report whatever fits 32.
// A prompt's tokens count once, however many choices it has.
std::string UsageJson(const std::vector<Finish>& finishes, int32_t n) {
  int64_t prompt = 0;
  int64_t completion = 0;
  int64_t cached = 0;
  int64_t reasoning = 0;
  bool estimated = false;
  for (size_t i = 0; i < finishes.size(); ++i) {
    const Usage& usage = finishes[i].usage;
    completion += usage.completion_tokens;
    reasoning += usage.reasoning_tokens;
    estimated = estimated || usage.estimated;
    if (i % static_cast<size_t>(n) != 0) continue;
    prompt += usage.prompt_tokens;
    cached += std::min(usage.cached_tokens, usage.prompt_tokens);
  }
  return fmt::format(
      "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},"
      "\"prompt_tokens_details\":{{\"cached_tokens\":{},\"cache_write_tokens\":{}}}{}{}}}",
      prompt, completion, prompt + completion, cached, prompt - cached,
      reasoning > 0
          ? fmt::format(",\"completion_tokens_details\":{{\"reasoning_tokens\":{}}}", reasoning)
          : "",
      estimated ? ",\"estimated\":true" : "");
}

// Milliseconds to the microsecond.
double Milliseconds(std::chrono::nanoseconds time) {
  return std::round(static_cast<double>(time.count()) / 1e3) / 1e3;
}

// The stop string that ended a choice, as vLLM names it: a member behind a comma; "": none did.
std::string StopMember(const Finish& finish, const Request& request) {
  const auto stop = static_cast<size_t>(finish.stop);
  if (finish.stop < 0 || stop >= request.stop.size()) return "";
  std::string member = ",\"stop_reason\":";
  AppendJsonString(request.stop[stop], &member);
  return member;
}

// For a gateway, of the tokens of one chunk: their ids, and with log-probabilities where each one's
// text begins, in bytes of the generated text.
std::string IdMembers(const std::vector<OutputToken>& tokens, bool offsets) {
  std::vector<TokenId> ids;
  std::vector<uint64_t> begins;
  for (const OutputToken& token : tokens) {
    ids.push_back(token.id);
    if (offsets) begins.push_back(token.text_offset);
  }
  std::string members = fmt::format(",\"ropeway_ids\":[{}]", fmt::join(ids, ","));
  if (offsets) members += fmt::format(",\"ropeway_offsets\":[{}]", fmt::join(begins, ","));
  return members;
}

void CheckLengths(const OpenAiBody& body, std::string_view zero_tokens_need, FieldReport* report) {
  const Request& request = body.request;
  const std::string& field = body.max_tokens_field;
  if (request.max_tokens == 0 && !body.shows_prompts && !body.prompt_logprobs) {
    report->AddTogether(
        InvalidArgument(
            zero_tokens_need.empty()
                ? fmt::format("'{}' must be at least 1, but is 0.", field)
                : fmt::format("'{}' must be at least 1, but is 0; 0 is allowed only with {}.",
                              field, zero_tokens_need),
            field),
        {"echo", "prompt_logprobs"});
  }
  if (request.max_tokens && request.sampling.min_tokens > *request.max_tokens) {
    report->AddTogether(
        InvalidArgument(fmt::format("'min_tokens' must be at most '{}', which is {}, but is {}.",
                                    field, *request.max_tokens, request.sampling.min_tokens),
                        "min_tokens"),
        {field});
  }
}

// A gateway moves streams, one choice at a time.
void CheckGateway(const OpenAiBody& body, FieldReport* report) {
  if (!body.gateway) return;
  const char* const field = "ropeway_gateway";
  const bool resumes = !body.request.resume_ids.empty();
  if ((body.gateway->ids || resumes) && !body.stream) {
    return report->AddTogether(
        InvalidArgument("'ids' and 'resume_ids' of 'ropeway_gateway' need 'stream' to be true.",
                        field),
        {"stream"});
  }
  if ((resumes || body.request.choice > 0) && body.choices() > 1) {
    return report->AddTogether(
        InvalidArgument("'choice' and 'resume_ids' of 'ropeway_gateway' are for a request for one "
                        "answer, but this one asks for several.",
                        field));
  }
  if (resumes && body.shows_prompts) {
    report->AddTogether(InvalidArgument("'echo' is not supported with 'resume_ids'.", "echo"),
                        {field});
  }
}

// `priority` and `service_tier` are two names of one thing.
void ResolvePriority(OpenAiBody* body, FieldReport* report) {
  if (body->priority && body->tier && *body->priority != *body->tier) {
    report->AddTogether(
        InvalidArgument(
            fmt::format("'priority' is {}, but 'service_tier' means {}; give one of them.",
                        PriorityName(*body->priority), PriorityName(*body->tier)),
            "priority"),
        {"service_tier"});
  }
  if (!body->priority) {
    body->priority = body->tier;
    body->priority_field = "service_tier";
  }
}

void CheckStream(const OpenAiBody& body, FieldReport* report) {
  if (body.has_stream_options && !body.stream) {
    report->AddTogether(
        InvalidArgument("'stream_options' needs 'stream' to be true.", "stream_options"),
        {"stream"});
  }
  if (body.stream && body.prompt_logprobs) {
    report->AddTogether(Unsupported("prompt_logprobs", " in streams; use 'echo' with 'logprobs'"));
  }
}

void CheckChoices(const OpenAiBody& body, FieldReport* report) {
  if (body.choices() <= static_cast<size_t>(body.max_choices)) return;
  report->AddTogether(InvalidArgument(
      fmt::format("'n' of {} for each of {} prompts makes {} choices; at most {} are allowed.",
                  body.n, body.prompts.size(), body.choices(), body.max_choices),
      "n"));
}

}  // namespace

std::string TokenKey(std::string_view bytes) {
  if (base::IsValidUtf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (char c : bytes) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(c));
  }
  return out;
}

double FiniteLogprob(float logprob) {
  constexpr double kLowest = -9999.0;
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLowest) : kLowest;
}

size_t TopCount(const OutputToken& token) {
  return std::min(token.top_logprobs.size(), token.top_bytes.size());
}

namespace {

Json TokenJson(std::string_view bytes, float logprob) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return {{"token", base::ReplaceInvalidUtf8(bytes)},
          {"logprob", FiniteLogprob(logprob)},
          {"bytes", std::move(list)}};
}

}  // namespace

Json TokensJson(const std::vector<OutputToken>& tokens) {
  Json content = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = TokenJson(token.bytes, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < TopCount(token); ++i) {
      entry["top_logprobs"].push_back(TokenJson(token.top_bytes[i], token.top_logprobs[i].logprob));
    }
    content.push_back(std::move(entry));
  }
  return content;
}

const char* ServiceTier(Priority priority) {
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

// Written as text: nlohmann/json's constructor from a list leaks what it has when memory runs out
// in its middle.
std::string RopewayJson(std::span<const Finish> choices) {
  const Finish& finish = choices.front();
  const bool started = finish.batch_num > 0;
  const auto or_null = [started](int64_t n) { return started ? fmt::format("{}", n) : "null"; };
  const std::string batch_num = or_null(finish.batch_num);
  const PhaseTimes& times = finish.times;
  const auto cut = std::ranges::find_if(choices, [](const Finish& f) { return *f.cut_by != 0; });
  const auto lowered =
      std::ranges::find_if(choices, [](const Finish& f) { return f.max_tokens > 0; });
  std::string limits;
  if (lowered != choices.end()) limits = fmt::format(",\"max_tokens\":{}", lowered->max_tokens);
  if (cut != choices.end()) limits += fmt::format(",\"cut_by\":\"{}\"", cut->cut_by);
  return fmt::format(
      "{{\"batch_num\":{},\"seed\":{},\"batch\":{},\"batch_size\":{},\"queue_ms\":{},"
      "\"formation_ms\":{},\"prefill_ms\":{},\"decode_ms\":{},\"output_ms\":{}{}}}",
      batch_num, finish.seed, batch_num, or_null(finish.batch_size), Milliseconds(times.queue),
      Milliseconds(times.formation), Milliseconds(times.prefill), Milliseconds(times.decode),
      Milliseconds(times.output), limits);
}

Json PromptLogprobs(const std::vector<OutputToken>& tokens) {
  const auto entry = [](float logprob, Json rank, const std::string& bytes) -> Json {
    return {{"logprob", FiniteLogprob(logprob)},
            {"rank", std::move(rank)},
            {"decoded_token", base::ReplaceInvalidUtf8(bytes)}};
  };
  Json list = Json::array();
  for (const OutputToken& token : tokens) {
    if (std::isnan(token.logprob)) {
      list.push_back(nullptr);
      continue;
    }
    Json by_id = Json::object();
    for (size_t i = 0; i < TopCount(token); ++i) {
      by_id.emplace(std::to_string(token.top_logprobs[i].id),
                    entry(token.top_logprobs[i].logprob, i + 1, token.top_bytes[i]));
    }
    by_id.emplace(std::to_string(token.id), entry(token.logprob, nullptr, token.bytes));
    list.push_back(std::move(by_id));
  }
  return list;
}

Status ReadOpenAiBody(std::string_view text, const BodyLimits& limits,
                      const FieldTable<OpenAiBody>& table, std::string_view zero_tokens_need,
                      const std::function<void(FieldReport* report)>& finish, OpenAiBody* body) {
  const StatusOr<nlohmann::json> document = ReadJson(text, limits.json);
  if (!document.ok()) return document.status();
  body->max_choices = limits.max_choices;
  FieldReport report(table.dialect, limits);
  body->report = &report;
  body->text = text;
  body->bounds = limits.json;
  const Status read = ReadFields(*document, table, body);
  body->report = nullptr;
  body->text = {};
  body->ignored = report.ignored();
  if (!document->is_object()) return read;
  CheckStream(*body, &report);
  finish(&report);
  CheckLengths(*body, zero_tokens_need, &report);
  CheckGateway(*body, &report);
  ResolvePriority(body, &report);
  CheckChoices(*body, &report);
  // Without a token to generate, the prompt is all that there is to compute.
  Request& request = body->request;
  if (request.max_tokens == 0 && !request.prompt_logprobs) request.prompt_logprobs = 0;
  return report.status();
}

Status OpenAiFormat::Parse(std::string_view body, const BodyLimits& limits) {
  const auto finish = [this](FieldReport* report) { FinishBody(report); };
  return ReadOpenAiBody(body, limits, table_, words_.zero_tokens_need, finish, body_);
}

void OpenAiFormat::Start(AnswerHead head) {
  head_ = std::move(head);
  head_.id.insert(0, words_.id_prefix);
  if (!body_->stream) return;
  finishes_.resize(body_->choices());
  rests_.resize(body_->choices());
  calls_.resize(body_->choices());
  begin_ = "data: {\"id\":";
  AppendJsonString(head_.id, &begin_);
  begin_ += fmt::format(",\"object\":\"{}\",\"created\":{},\"model\":", words_.chunk_object,
                        head_.created);
  AppendJsonString(head_.model, &begin_);
  if (!head_.fingerprint.empty()) {
    begin_ += ",\"system_fingerprint\":";
    AppendJsonString(head_.fingerprint, &begin_);
  }
  if (body_->service_tier) {
    begin_ += fmt::format(",\"service_tier\":\"{}\"", ServiceTier(head_.priority));
  }
  begin_ += ",\"choices\":[";
}

void LastCall::Add(const ToolCallDelta& call) {
  if (call.index < index_) return;
  if (call.index > index_) {
    *this = LastCall();
    index_ = call.index;
  }
  for (const char c : call.arguments) {
    begun_ = true;
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }
}

bool OpenAiFormat::HasEvent(size_t choice, Delta* delta) {
  for (const ToolCallDelta& call : delta->tool_calls) calls_[choice].Add(call);
  if (!delta->tokens.empty()) return delta->says() || logprobs() || shows_ids();
  if (!shows_ids()) return delta->says();
  Delta& rest = rests_[choice];
  rest.text += delta->text;
  rest.reasoning += delta->reasoning;
  for (ToolCallDelta& call : delta->tool_calls) rest.tool_calls.push_back(std::move(call));
  return false;
}

std::string OpenAiFormat::Chunk(size_t choice, std::string_view output,
                                std::string_view logprobs) const {
  return MakeChunk(choice, output, logprobs, {});
}

std::string OpenAiFormat::Chunk(size_t choice, std::string_view output, std::string_view logprobs,
                                const std::vector<OutputToken>& tokens) const {
  if (!shows_ids()) return MakeChunk(choice, output, logprobs, {});
  std::string members = IdMembers(tokens, this->logprobs());
  return MakeChunk(choice, output, logprobs, {.in_choice = members});
}

std::string OpenAiFormat::MakeChunk(size_t choice, std::string_view output,
                                    std::string_view logprobs, const ChunkEnd& end) const {
  std::string out;
  out.reserve(begin_.size() + output.size() + logprobs.size() + end.in_choice.size() +
              end.tail.size() + 128);
  out += begin_;
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},", choice);
  out += output;
  out += ",\"logprobs\":";
  out += logprobs;
  out += ",\"finish_reason\":";
  out += end.finish_reason;
  out += end.in_choice;
  out += "}]";
  if (body_->include_usage) out += ",\"usage\":null";
  out += end.tail;
  out += "}\n\n";
  return out;
}

std::string OpenAiFormat::ReasonOf(const Finish& finish, bool calls) const {
  const bool cut = finish.reason == FinishReason::kLength;
  return fmt::format("\"{}\"", cut ? "length" : StopReason(calls));
}

std::string OpenAiFormat::OnEnd(size_t choice, const Finish& finish) {
  finishes_[choice] = finish;
  const std::string reason = ReasonOf(finish, calls_[choice].whole());
  const Delta& rest = rests_[choice];
  const std::string output = rest.says() ? OutputMember(rest) : words_.no_output;
  const std::string tail = ",\"ropeway\":" + RopewayJson({&finish, 1});
  const std::string stop = StopMember(finish, body_->request);
  return MakeChunk(choice, output, "null",
                   {.finish_reason = reason, .in_choice = stop, .tail = tail});
}

std::string OpenAiFormat::Done() {
  std::string out;
  if (body_->include_usage) {
    out = begin_ + "],\"usage\":" + UsageJson(finishes_, body_->n) +
          ",\"ropeway\":" + RopewayJson(finishes_) + "}\n\n";
  }
  return out + "data: [DONE]\n\n";
}

std::string OpenAiFormat::StreamError(const ApiError& error) const {
  return "data: " + ErrorJson(error) + "\n\n";
}

Json OpenAiFormat::Envelope() const {
  Json begin = {{"id", head_.id},
                {"object", words_.object},
                {"created", head_.created},
                {"model", head_.model}};
  if (!head_.fingerprint.empty()) begin["system_fingerprint"] = head_.fingerprint;
  if (body_->service_tier) begin["service_tier"] = ServiceTier(head_.priority);
  return begin;
}

std::string OpenAiFormat::Pending(AnswerState state, const ApiError* error) const {
  Json answer = Envelope();
  answer["status"] = AnswerStateName(state);
  answer["choices"] = Json::array();
  if (error != nullptr) answer["error"] = ErrorObject(*error);
  return DumpJson(answer);
}

// Written choice by choice: as JSON values log-probabilities take ten times their memory.
std::string OpenAiFormat::Whole(const std::vector<ChoiceOutput>& choices) const {
  Json begin = Envelope();
  if (head_.stored) begin["status"] = AnswerStateName(EndState(choices));
  std::string answer = DumpJson(begin);
  answer.back() = ',';  // It goes on.
  answer += "\"choices\":[";
  std::vector<Finish> finishes;
  for (size_t i = 0; i < choices.size(); ++i) {
    Json choice = ChoiceJson(i, choices[i]);
    const bool cut = choices[i].finish.reason == FinishReason::kLength;
    LastCall last;
    if (!choices[i].tool_calls.empty())
      last.Add({0, "", "", choices[i].tool_calls.back().arguments});
    choice["finish_reason"] = cut ? "length" : StopReason(last.whole());
    if (i > 0) answer += ',';
    answer += DumpJson(choice);
    answer.insert(answer.size() - 1, StopMember(choices[i].finish, body_->request));
    finishes.push_back(choices[i].finish);
  }
  return answer + "],\"usage\":" + UsageJson(finishes, body_->n) + "," + MoreMembers(choices) +
         "\"ropeway\":" + RopewayJson(finishes) + "}";
}

}  // namespace ropeway::api
