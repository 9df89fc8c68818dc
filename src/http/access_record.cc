#include "http/access_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"

namespace ropeway::http {
namespace {

constexpr size_t kMostBytes = 128;  // A text's, at most.

bool IsPlain(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// Whether neither format escapes the character: the plain ones and two more.
bool NeedsNoQuotes(char c) { return IsPlain(c) || c == '/' || c == ':'; }

std::string Bounded(std::string_view text) {
  std::string shown = base::PrintableText(text.substr(0, kMostBytes));
  if (text.size() > kMostBytes) shown += "...";
  return shown;
}

// In quotes, in which '"' and '\' have a '\' before them.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Writes the fields that there are, in one of two formats.
class FieldWriter {
 public:
  explicit FieldWriter(bool json) : json_(json) {}

  void Text(const char* name, std::string_view value) {
    if (value.empty()) return;
    Name(name);
    if (value.size() > kMostBytes || !std::ranges::all_of(value, NeedsNoQuotes)) {
      out_ += json_ ? base::QuoteJson(Bounded(value)) : Quoted(Bounded(value));
      return;
    }
    if (json_) out_ += '"';
    out_ += value;
    if (json_) out_ += '"';
  }
  void Number(const char* name, int64_t value) {
    Name(name);
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }
  void Time(const char* name, std::optional<double> ms) {
    if (!ms) return;
    Name(name);
    fmt::format_to(std::back_inserter(out_), "{:.1f}", *ms);
  }
  std::string Take() { return std::move(out_); }

 private:
  void Name(const char* name) {
    if (!out_.empty()) out_ += json_ ? ',' : ' ';
    if (json_) out_ += '"';
    out_ += name;
    out_ += json_ ? "\":" : "=";
  }

  const bool json_;
  std::string out_;
};

std::string Fields(const AccessRecord& r, bool json) {
  FieldWriter writer(json);
  writer.Text("id", r.id);
  writer.Text("own_id", r.own_id);
  writer.Text("answer_id", r.answer_id);
  writer.Text("key", r.key);
  writer.Text("class", r.priority);
  writer.Text("address", r.address);
  writer.Text("method", r.method);
  writer.Text("route", r.route);
  writer.Number("status", r.status);
  writer.Text("model", r.model);
  writer.Text("code", r.code);
  writer.Text("field", r.field);
  if (r.tokens) {
    writer.Number("tokens_in", r.tokens->in);
    writer.Number("tokens_cached", r.tokens->cached);
    writer.Number("tokens_out", r.tokens->out);
  }
  writer.Time("queue_ms", r.queue_ms);
  writer.Time("ttft_ms", r.ttft_ms);
  writer.Time("total_ms", r.total_ms);
  return writer.Take();
}

}  // namespace

std::string AccessText(const AccessRecord& record) { return "request " + Fields(record, false); }

std::string AccessJson(const AccessRecord& record) { return Fields(record, true); }

std::string_view UsableRequestId(std::string_view given) {
  const bool usable =
      !given.empty() && given.size() <= kMostBytes && std::ranges::all_of(given, IsPlain);
  return usable ? given : std::string_view();
}

AccessLog::AccessLog() : logger_(base::Log().clone(base::kMembersLogger)) {}

void AccessLog::Write(const AccessRecord& record) noexcept {
  try {
    if (on()) logger_->info(base::LogsAsJson() ? AccessJson(record) : AccessText(record));
  } catch (...) {  // The line is lost.
  }
}

}  // namespace ropeway::http
