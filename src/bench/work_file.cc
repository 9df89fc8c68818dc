#include "bench/work_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/text_lines.h"

namespace ropeway {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr double kMaxTokens = 100e6;
constexpr double kMaxClient = 1e6;

// A whole number of tokens; -1 for anything else.
int TokenCount(double value) {
  if (!(value >= 0 && value <= kMaxTokens) || value != std::floor(value)) return -1;
  return std::max(1, static_cast<int>(value));
}

std::optional<double> Number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// "2023-11-16 18:17:03.9799600", as seconds of an epoch.
std::optional<double> DateAndTime(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  // NOLINTNEXTLINE(cert-err34-c): what cannot be a date is refused below.
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

// Fills `prompt` from a data set's line; the reply says what is wrong, empty: nothing.
std::string_view ReadPrompt(const Json& line, bool chat, Prompt* prompt) {
  if (line.contains("max_tokens")) {
    const Json& bound = line["max_tokens"];
    if (!bound.is_number_unsigned() || bound == 0 || bound.get<uint64_t>() > 100'000'000) {
      return "\"max_tokens\" must be a whole number of at least 1";
    }
    prompt->max_tokens = bound.get<int>();
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
  if (asked == nullptr) return "no \"prompt\", \"messages\" or \"turns\"";
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
  enum Meaning { kInput, kOutput, kSeconds, kMilliseconds, kDate, kClient } meaning;
};

constexpr std::array kColumns = {
    Column{"ContextTokens", Column::kInput},    Column{"num_prefill_tokens", Column::kInput},
    Column{"input_tokens", Column::kInput},     Column{"input_length", Column::kInput},
    Column{"GeneratedTokens", Column::kOutput}, Column{"num_decode_tokens", Column::kOutput},
    Column{"output_tokens", Column::kOutput},   Column{"output_length", Column::kOutput},
    Column{"arrival_s", Column::kSeconds},      Column{"TIMESTAMP", Column::kDate},
    Column{"timestamp", Column::kMilliseconds}, Column{"client", Column::kClient},
};

// Puts one field into `entry`; what was expected where its text is none of its kind, else "".
const char* TakeField(Column::Meaning meaning, const std::string& text, TraceEntry* entry) {
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
        return "a whole number of at least 0, and not larger than there can be clients";
      }
      entry->client = static_cast<int>(*value);
      return "";
    case Column::kInput:
    case Column::kOutput:
      break;
  }
  int& tokens = meaning == Column::kInput ? entry->input_tokens : entry->output_tokens;
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

// The blocks' names, where the line has them; false: one is no whole number.
bool ReadHashIds(const Json& line, std::vector<uint64_t>* ids) {
  const auto found = line.find("hash_ids");
  if (found == line.end()) return true;
  if (!found->is_array()) return false;
  for (const Json& id : *found) {
    if (!id.is_number_unsigned()) return false;
    ids->push_back(id.get<uint64_t>());
  }
  return true;
}

// Reads the named fields of one line: of CSV under `header`, or of a JSON object. Says what is
// wrong with it, or "".
std::string ReadEntry(const std::string& line, const std::vector<std::string>& header,
                      TraceEntry* entry) {
  const auto take = [entry](const Column& column, const std::string& text) {
    const std::string expected = TakeField(column.meaning, text, entry);
    return expected.empty() ? "" : fmt::format("\"{}\" must be {}", column.name, expected);
  };
  if (header.empty()) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return "it is no JSON object";
    for (const Column& column : kColumns) {
      const auto found = json.find(column.name);
      if (found == json.end()) continue;
      const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
      if (std::string wrong = take(column, text); !wrong.empty()) return wrong;
    }
    if (!ReadHashIds(json, &entry->hash_ids)) return "\"hash_ids\" must be a list of whole numbers";
  } else {
    const std::vector<std::string> fields = SplitAtCommas(line);
    if (fields.size() != header.size()) {
      return fmt::format("it has {} fields, its header {}", fields.size(), header.size());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto* column = std::find_if(kColumns.begin(), kColumns.end(),
                                        [&](const Column& c) { return c.name == header[i]; });
      if (column == kColumns.end()) continue;
      if (std::string wrong = take(*column, fields[i]); !wrong.empty()) return wrong;
    }
  }
  if (entry->input_tokens > 0 && entry->output_tokens > 0) return "";
  return "a trace needs the numbers of its input and output tokens, as the documentation of "
         "--trace names them";
}

}  // namespace

StatusOr<std::vector<Prompt>> ReadDataset(const std::string& path, bool chat, int max_tokens,
                                          int limit) {
  TextLines lines(path);
  if (!lines.open()) return lines.Unreadable();
  std::vector<Prompt> prompts;
  while (static_cast<int>(prompts.size()) < limit && lines.Next()) {
    if (lines.text().size() > kMaxLineBytes) return lines.Wrong("it is longer than 64 MiB");
    const Json line = Json::parse(lines.text(), nullptr, false);
    if (!line.is_object()) return lines.Wrong("it is no JSON object");
    Prompt prompt;
    prompt.max_tokens = max_tokens;
    if (const std::string_view wrong = ReadPrompt(line, chat, &prompt); !wrong.empty()) {
      return lines.Wrong(wrong);
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return lines.Empty();
  return prompts;
}

StatusOr<Trace> ReadTrace(const std::string& path, int limit, int max_tokens) {
  TextLines lines(path);
  if (!lines.open()) return lines.Unreadable();
  Trace trace;
  std::vector<std::string> header;
  bool first = true;
  double before = 0;
  while (static_cast<int>(trace.entries.size()) < limit && lines.Next()) {
    if (first && !lines.text().starts_with('{')) header = SplitAtCommas(lines.text());
    if (std::exchange(first, false) && !header.empty()) continue;
    TraceEntry entry;
    if (const std::string wrong = ReadEntry(lines.text(), header, &entry); !wrong.empty()) {
      return lines.Wrong(wrong);
    }
    if (max_tokens > 0 && int64_t{entry.input_tokens} + entry.output_tokens > max_tokens) {
      ++trace.too_long;
      continue;
    }
    if (entry.arrival) {
      if (!trace.entries.empty() && *entry.arrival < before) {
        return lines.Wrong("it arrives before the line above it");
      }
      before = *entry.arrival;
    }
    trace.entries.push_back(entry);
  }
  if (trace.entries.empty()) return lines.Empty();
  const std::optional<double> start = trace.entries.front().arrival;
  for (TraceEntry& entry : trace.entries) {
    if (start && entry.arrival) *entry.arrival -= *start;
  }
  return trace;
}

}  // namespace ropeway
