#include "http/access_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"

namespace ropeway::http {
namespace {

constexpr size_t kMostBytes = 128;  // Of a text.

bool IsPlain(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

struct Field {
  const char* name;
  std::string value;
  bool is_text = true;  // Else a number.
};

// Those that are shown, in order.
std::vector<Field> FieldsOf(const AccessRecord& r) {
  std::vector<Field> fields;
  const auto text = [&](const char* name, std::string_view value) {
    if (value.empty()) return;
    std::string shown = base::PrintableText(value.substr(0, kMostBytes));
    if (value.size() > kMostBytes) shown += "...";
    fields.push_back({name, std::move(shown)});
  };
  const auto number = [&](const char* name, auto value) {
    fields.push_back({name, fmt::format("{}", value), false});
  };
  const auto time = [&](const char* name, std::optional<double> ms) {
    if (ms) fields.push_back({name, fmt::format("{:.1f}", *ms), false});
  };
  text("id", r.id);
  text("key", r.key);
  text("class", r.priority);
  text("address", r.address);
  text("method", r.method);
  text("route", r.route);
  number("status", r.status);
  text("model", r.model);
  text("code", r.code);
  text("field", r.field);
  if (r.tokens) {
    number("tokens_in", r.tokens->in);
    number("tokens_cached", r.tokens->cached);
    number("tokens_out", r.tokens->out);
  }
  time("queue_ms", r.queue_ms);
  time("ttft_ms", r.ttft_ms);
  time("total_ms", r.total_ms);
  return fields;
}

// In quotes, in which '"' and '\' have a '\' before them, unless it is plain.
std::string Quoted(const std::string& text) {
  const auto plain = [](char c) { return IsPlain(c) || c == '/' || c == ':'; };
  if (std::ranges::all_of(text, plain)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string AccessText(const AccessRecord& record) {
  std::string line = "request";
  for (const Field& field : FieldsOf(record)) {
    line += fmt::format(" {}={}", field.name, field.is_text ? Quoted(field.value) : field.value);
  }
  return line;
}

std::string AccessJson(const AccessRecord& record) {
  std::string members;
  for (const Field& field : FieldsOf(record)) {
    members += fmt::format("{}\"{}\":{}", members.empty() ? "" : ",", field.name,
                           field.is_text ? base::QuoteJson(field.value) : field.value);
  }
  return members;
}

std::string_view UsableRequestId(std::string_view given) {
  const bool usable =
      !given.empty() && given.size() <= kMostBytes && std::ranges::all_of(given, IsPlain);
  return usable ? given : std::string_view();
}

}  // namespace ropeway::http
