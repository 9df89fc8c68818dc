#include "loadgen/work_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/words.h"

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr double kMaxTokens = 100e6;
constexpr double kMaxClient = 1e6;
constexpr uint64_t kMaxAnswer = 100'000'000;  // Tokens.

// The lines of a text file, without empty ones.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), file_(path) {}

  bool open() const { return file_.is_open(); }
  // Goes to the next line; false at the end.
  bool Next() {
    while (std::getline(file_, line_)) {
      ++number_;
      if (line_.ends_with('\r')) line_.pop_back();
      if (line_.find_first_not_of(" \t") != std::string::npos) return true;
    }
    return false;
  }
  const std::string& text() const { return line_; }

  Status Unreadable() const {
    return {StatusCode::kNotFound, fmt::format("Cannot read '{}'.", path_)};
  }
  Status Wrong(std::string_view what) const {
    return InvalidArgument(fmt::format("{}, line {}: {}.", path_, number_, what));
  }
  Status Empty() const { return InvalidArgument(fmt::format("'{}' contains no requests.", path_)); }

 private:
  const std::string path_;
  std::ifstream file_;
  std::string line_;
  int number_ = 0;
};

// A number of tokens to generate; none for anything else.
std::optional<int> AnswerTokens(const Json& json) {
  if (!json.is_number_unsigned() || json == 0 || json.get<uint64_t>() > kMaxAnswer) return {};
  return json.get<int>();
}

// A whole number of tokens; -1 for anything else.
int TokenCount(double value) {
  if (!(value >= 0 && value <= kMaxTokens) || value != std::floor(value)) return -1;
  return std::max(1, static_cast<int>(value));
}

std::optional<double> Number(std::string_view text) {
  const std::optional<double> value = base::ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// "2023-11-16 18:17:03.9799600", as seconds of an epoch.
std::optional<double> DateAndTime(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  // NOLINTNEXTLINE(cert-err34-c): what cannot be a date is rejected below.
  if (std::sscanf(text.c_str(), "%d-%u-%u%*1[ T]%d:%d:%lf", &year, &month, &day, &hour, &minute,
                  &second) != 6) {
    return std::nullopt;
  }
  using std::chrono::sys_days;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || !(second >= 0) ||
      second >= 61) {
    return std::nullopt;
  }
  return static_cast<double>(sys_days(date).time_since_epoch().count()) * 86400.0 + hour * 3600.0 +
         minute * 60.0 + second;
}

// Reads the ids of `json` into `ids`; false if one is no token id.
bool ReadIds(const Json& json, std::vector<int32_t>* ids) {
  for (const Json& id : json) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) return false;
    ids->push_back(id.get<int32_t>());
  }
  return !ids->empty();
}

// Fills `prompt` from a data set's line; returns what is wrong, or "".
std::string_view ReadPrompt(const Json& line, bool chat, Prompt* prompt) {
  if (line.contains("max_tokens")) {
    const std::optional<int> bound = AnswerTokens(line["max_tokens"]);
    if (!bound) return "\"max_tokens\" must be a whole number of at least 1";
    prompt->max_tokens = *bound;
  }
  if (line.contains("arrival_s")) {
    if (!line["arrival_s"].is_number()) return "\"arrival_s\" must be a number";
    prompt->arrival = line["arrival_s"].get<double>();
  }
  if (line.contains("messages")) {
    if (!chat) return "\"messages\" need --endpoint chat";
    if (!line["messages"].is_array() || line["messages"].empty()) {
      return "\"messages\" must be a list of messages";
    }
    prompt->messages = line["messages"].dump(-1, ' ', false, Json::error_handler_t::replace);
    return {};
  }
  const Json* asked = line.contains("prompt") ? &line["prompt"] : nullptr;
  if (asked == nullptr && line.contains("turns") && line["turns"].is_array() &&
      !line["turns"].empty()) {
    asked = &line["turns"][0];
  }
  if (asked == nullptr) return "\"prompt\", \"messages\" or \"turns\" is missing";
  if (asked->is_string()) {
    prompt->text = asked->get<std::string>();
    return prompt->text.empty() ? "the prompt is empty" : std::string_view();
  }
  if (!asked->is_array() || !ReadIds(*asked, &prompt->ids)) {
    return "\"prompt\" must be a text or a list of token ids";
  }
  return chat ? "token ids need --endpoint completions" : std::string_view();
}

struct Column {
  const char* name;
  enum Meaning { kInput, kOutput, kSeconds, kMilliseconds, kDate, kClient, kPriority } meaning;
};

constexpr std::array kColumns = {
    Column{"ContextTokens", Column::kInput},    Column{"num_prefill_tokens", Column::kInput},
    Column{"input_tokens", Column::kInput},     Column{"input_length", Column::kInput},
    Column{"GeneratedTokens", Column::kOutput}, Column{"num_decode_tokens", Column::kOutput},
    Column{"output_tokens", Column::kOutput},   Column{"output_length", Column::kOutput},
    Column{"arrival_s", Column::kSeconds},      Column{"TIMESTAMP", Column::kDate},
    Column{"timestamp", Column::kMilliseconds}, Column{"client", Column::kClient},
    Column{"priority", Column::kPriority},
};

// Puts one field into `entry`; returns what was expected if the text is something else, or "".
const char* TakeField(Column::Meaning meaning, const std::string& text, Prompt* entry) {
  const std::optional<double> value = Number(text);
  switch (meaning) {
    case Column::kDate:
      entry->arrival = DateAndTime(text);
      return entry->arrival ? "" : "a date and time";
    case Column::kSeconds:
    case Column::kMilliseconds:
      if (!value || !std::isfinite(*value)) return "a number";
      entry->arrival = meaning == Column::kSeconds ? *value : *value / 1000;
      return "";
    case Column::kClient:
      if (!value || !(*value >= 0 && *value <= kMaxClient) || *value != std::floor(*value)) {
        return "a whole number, 0 to 1000000";
      }
      entry->client = static_cast<int>(*value);
      return "";
    case Column::kPriority:
      entry->priority = PriorityOf(text);
      return entry->priority ? "" : "high, medium or low";
    case Column::kInput:
    case Column::kOutput:
      break;
  }
  int& tokens = meaning == Column::kInput ? entry->input_tokens : entry->max_tokens;
  tokens = value ? TokenCount(*value) : -1;
  return tokens >= 0 ? "" : "a number of tokens";
}

std::vector<std::string> SplitAtCommas(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// Reads the named fields of one line: of CSV under `header`, or of a JSON object. Returns what is
// wrong, or "".
std::string ReadEntry(const std::string& line, const std::vector<std::string>& header,
                      Prompt* entry) {
  const auto take = [entry](const Column& column, const std::string& text) {
    const std::string expected = TakeField(column.meaning, text, entry);
    return expected.empty() ? "" : fmt::format("\"{}\" must be {}", column.name, expected);
  };
  if (header.empty()) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return "it is not a JSON object";
    for (const Column& column : kColumns) {
      const auto found = json.find(column.name);
      if (found == json.end()) continue;
      const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
      if (std::string wrong = take(column, text); !wrong.empty()) return wrong;
    }
  } else {
    const std::vector<std::string> fields = SplitAtCommas(line);
    if (fields.size() != header.size()) {
      return fmt::format("it has {} fields, but the header has {}", fields.size(), header.size());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto* column = std::find_if(kColumns.begin(), kColumns.end(),
                                        [&](const Column& c) { return c.name == header[i]; });
      if (column == kColumns.end()) continue;
      if (std::string wrong = take(*column, fields[i]); !wrong.empty()) return wrong;
    }
  }
  if (entry->input_tokens > 0 && entry->max_tokens > 0) return "";
  return "the numbers of input and output tokens are missing (the documentation of --trace names "
         "their columns)";
}

// False if the turn lacks a text or a number.
bool ReadTurn(const Json& json, Conversation::Turn* turn) {
  if (!json.is_object() || !json.contains("user") || !json["user"].is_string() ||
      !json.contains("max_tokens")) {
    return false;
  }
  turn->user = json["user"].get<std::string>();
  const std::optional<int> tokens = AnswerTokens(json["max_tokens"]);
  turn->max_tokens = tokens.value_or(0);
  if (json.contains("assistant") && json["assistant"].is_string()) {
    turn->assistant = json["assistant"].get<std::string>();
  }
  return tokens.has_value() && !turn->user.empty();
}

}  // namespace

StatusOr<std::vector<Prompt>> ReadDataset(const std::string& path, bool chat, int max_tokens,
                                          int limit) {
  Lines lines(path);
  if (!lines.open()) return lines.Unreadable();
  std::vector<Prompt> prompts;
  while (static_cast<int>(prompts.size()) < limit && lines.Next()) {
    if (lines.text().size() > kMaxLineBytes) return lines.Wrong("it is longer than 64 MiB");
    const Json line = Json::parse(lines.text(), nullptr, false);
    if (!line.is_object()) return lines.Wrong("it is not a JSON object");
    Prompt prompt;
    prompt.max_tokens = max_tokens;
    if (const std::string_view wrong = ReadPrompt(line, chat, &prompt); !wrong.empty()) {
      return lines.Wrong(wrong);
    }
    if (!prompts.empty() && prompt.arrival.has_value() != prompts.back().arrival.has_value()) {
      return lines.Wrong("all lines must have \"arrival_s\", or none");
    }
    if (prompt.arrival && *prompt.arrival < (prompts.empty() ? 0 : *prompts.back().arrival)) {
      return lines.Wrong("it arrives before the request of the line above");
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return lines.Empty();
  return prompts;
}

StatusOr<Trace> ReadTrace(const std::string& path, int limit, int max_tokens) {
  Lines lines(path);
  if (!lines.open()) return lines.Unreadable();
  Trace trace;
  std::vector<std::string> header;
  bool first = true;
  double before = 0;
  while (static_cast<int>(trace.entries.size()) < limit && lines.Next()) {
    if (first && !lines.text().starts_with('{')) header = SplitAtCommas(lines.text());
    if (std::exchange(first, false) && !header.empty()) continue;
    Prompt entry;
    if (const std::string wrong = ReadEntry(lines.text(), header, &entry); !wrong.empty()) {
      return lines.Wrong(wrong);
    }
    if (max_tokens > 0 && int64_t{entry.input_tokens} + entry.max_tokens > max_tokens) {
      ++trace.too_long;
      continue;
    }
    if (entry.arrival) {
      if (!trace.entries.empty() && *entry.arrival < before) {
        return lines.Wrong("it arrives before the request of the line above");
      }
      before = *entry.arrival;
    }
    trace.entries.push_back(entry);
  }
  if (trace.entries.empty()) return lines.Empty();
  const std::optional<double> start = trace.entries.front().arrival;
  for (Prompt& entry : trace.entries) {
    if (start && entry.arrival) *entry.arrival -= *start;
  }
  return trace;
}

StatusOr<std::vector<Conversation>> ReadConversations(const std::string& path, int limit) {
  Lines lines(path);
  if (!lines.open()) return lines.Unreadable();
  std::vector<Conversation> conversations;
  while (static_cast<int>(conversations.size()) < limit && lines.Next()) {
    if (lines.text().size() > kMaxLineBytes) return lines.Wrong("it is longer than 64 MiB");
    const Json line = Json::parse(lines.text(), nullptr, false);
    Conversation& conversation = conversations.emplace_back();
    if (!line.is_object() || !line.contains("turns") || !line["turns"].is_array() ||
        line["turns"].empty()) {
      return lines.Wrong("a conversation must be a JSON object with a list \"turns\"");
    }
    for (const Json& said : line["turns"]) {
      if (!ReadTurn(said, &conversation.turns.emplace_back())) {
        return lines.Wrong("each turn must have a text \"user\" and a number \"max_tokens\"");
      }
    }
    if (!line.contains("first_turn")) continue;
    const Json& first = line["first_turn"];
    if (!first.is_number_unsigned() || first.get<uint64_t>() >= conversation.turns.size()) {
      return lines.Wrong("\"first_turn\" must be the number of a turn, from 0");
    }
    conversation.first_turn = first.get<int>();
  }
  if (conversations.empty()) return lines.Empty();
  return conversations;
}

}  // namespace ropeway::loadgen
