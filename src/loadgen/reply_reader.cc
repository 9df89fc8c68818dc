#include "loadgen/reply_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "net/http_client.h"

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;
using base::Member;
using base::Text;

int64_t Count(const Json& json) {
  return json.is_number_integer() ? std::max<int64_t>(0, json.get<int64_t>()) : 0;
}

// What `body` says about its error: OpenAI's shape, a bare message, or its first characters.
std::string ErrorText(const Json& json, std::string_view body) {
  const Json& error = Member(json, "error");
  std::string_view text = Text(Member(error, "message"));
  if (text.empty()) text = Text(error);
  if (text.empty()) text = Text(Member(json, "message"));
  if (text.empty()) text = Text(Member(json, "detail"));
  if (text.empty()) text = body;
  return std::string(text.substr(0, 500));
}

// The text of a choice: a completion's, a stream's piece of one, a message or a message's piece.
std::string_view ChoiceText(const Json& choice) {
  if (const std::string_view text = Text(Member(choice, "text")); !text.empty()) return text;
  for (const char* holder : {"delta", "message"}) {
    const Json& message = Member(choice, holder);
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      if (const std::string_view text = Text(Member(message, key)); !text.empty()) return text;
    }
  }
  return {};
}

const Json& FirstChoice(const Json& json) {
  const Json& choices = Member(json, "choices");
  return choices.is_array() && !choices.empty() ? choices[0] : Member(Json(), "");
}

// Takes the usage and the `ropeway` block, if `json` has them. Returns whether it had the usage.
bool ReadCounts(const Json& json, RequestRecord* record) {
  const Json& own = Member(json, "ropeway");
  for (const auto& [name, field] : {std::pair("batch_num", &record->batch_num),
                                    {"batch", &record->batch},
                                    {"batch_size", &record->batch_size}}) {
    if (const Json& number = Member(own, name); number.is_number_integer()) {
      *field = number.get<int64_t>();
    }
  }
  for (size_t i = 0; i < kPhases.size(); ++i) {
    const Json& time = Member(own, (std::string(kPhases[i]) + "_ms").c_str());
    if (time.is_number()) record->phases[i] = time.get<double>() / 1000;
  }
  const Json& usage = Member(json, "usage");
  if (!usage.is_object()) return false;
  record->input_tokens = Count(Member(usage, "prompt_tokens"));
  record->output_tokens = Count(Member(usage, "completion_tokens"));
  // OpenAI's field, or llama-server's beside the usage.
  for (const Json* cached : {&Member(Member(usage, "prompt_tokens_details"), "cached_tokens"),
                             &Member(Member(json, "timings"), "cache_n")}) {
    if (!cached->is_number_integer()) continue;
    record->cached_tokens = Count(*cached);
    break;
  }
  return true;
}

}  // namespace

void ReplyReader::OnHead(int status, std::string_view content_type) {
  record_->status = status;
  stream_ = status == 200 && content_type.find("event-stream") != std::string_view::npos;
}

bool ReplyReader::OnBody(std::string_view bytes, double now) {
  if (ended_) return false;
  body_bytes_ += bytes.size();
  if (body_bytes_ > kMaxBodyBytes) {
    Fail(net::http_error::kBadReply,
         fmt::format("the answer is longer than {} MiB", kMaxBodyBytes >> 20), now);
  } else if (!stream_) {
    body_ += bytes;
  } else if (!events_.Feed(bytes, [&](const net::SseEvent& event) { OnEvent(event.data, now); })) {
    Fail(net::http_error::kBadReply, "an event of the stream is too long", now);
  }
  return !ended_;
}

void ReplyReader::OnEvent(std::string_view data, double now) {
  if (ended_ || complete_) return;
  if (data == "[DONE]") {
    complete_ = true;
    record_->latency = now;
    return;
  }
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object()) {
    Fail(net::http_error::kBadReply,
         fmt::format("an event of the stream is not a JSON object: {}", data.substr(0, 100)), now);
    return;
  }
  if (!Member(event, "error").is_null()) {
    Fail(kErrorEvent, ErrorText(event, data), now);
    return;
  }
  if (ReadCounts(event, record_)) counted_ = true;
  const Json& choice = FirstChoice(event);
  if (!Text(Member(choice, "finish_reason")).empty()) finished_ = true;
  OnText(ChoiceText(choice), now);
}

void ReplyReader::OnText(std::string_view text, double now) {
  if (text.empty()) return;
  if (!record_->ttft) {
    record_->ttft = now;
  } else {
    record_->gaps.push_back(static_cast<float>(now - last_text_));
  }
  last_text_ = now;
  ++pieces_;
  if (keep_text_) record_->output += text;
}

void ReplyReader::OnEnd(double now) {
  if (ended_) return;
  if (record_->status != 200) {
    EndError(now);
  } else if (!stream_) {
    EndWhole(now);
  } else if (!complete_ && !finished_) {
    Fail(net::http_error::kEarlyEnd, "the stream ended without a finish_reason and without [DONE]",
         now);
  } else {
    if (!complete_) record_->latency = now;
    ended_ = true;
    if (!counted_) {
      record_->output_tokens = pieces_;
      record_->estimated = true;
    }
  }
}

void ReplyReader::OnBroken(const char* kind, std::string why, double now) {
  if (ended_) return;
  if (complete_) {
    OnEnd(now);
  } else {
    Fail(kind, std::move(why), now);
  }
}

void ReplyReader::EndError(double now) {
  const Json json = Json::parse(body_, nullptr, false);
  Fail(fmt::format("HTTP {}", record_->status), ErrorText(json, body_), now);
}

void ReplyReader::EndWhole(double now) {
  const Json json = Json::parse(body_, nullptr, false);
  if (json.is_object() && !Member(json, "error").is_null()) {
    Fail(net::http_error::kBadReply, ErrorText(json, body_), now);
    return;
  }
  if (!FirstChoice(json).is_object()) {
    Fail(net::http_error::kBadReply,
         fmt::format("the answer is not a JSON object with choices: {}", body_.substr(0, 100)),
         now);
    return;
  }
  record_->estimated = !ReadCounts(json, record_);
  if (keep_text_) record_->output = ChoiceText(FirstChoice(json));
  record_->latency = now;
  ended_ = true;
  body_ = std::string();
}

void ReplyReader::Fail(std::string kind, std::string why, double now) {
  record_->error_kind = std::move(kind);
  record_->error = std::move(why);
  record_->latency = now;
  ended_ = true;
}

}  // namespace ropeway::loadgen
