#include "server/url_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/words.h"

namespace ropeway::server {
namespace {

// A part of a query, in which a plus is a space.
std::string Decoded(std::string_view part) {
  std::string text(part);
  std::ranges::replace(text, '+', ' ');
  return base::PercentDecoded(text);
}

Status MustBe(const std::string& name, const std::string& expected, const std::string& value) {
  return InvalidArgument(
      fmt::format("'{}' must be {}, but is '{}'.", name, expected, api::ShownName(value)), name);
}

}  // namespace

UrlQuery::UrlQuery(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t sign = std::min(one.find('='), one.size());
    if (one.empty()) continue;
    const std::string_view value = one.substr(std::min(sign + 1, one.size()));
    parameters_.emplace_back(Decoded(one.substr(0, sign)), Decoded(value));
  }
}

const std::string* UrlQuery::Find(const std::string& name) {
  read_.insert(name);
  const auto found = std::ranges::find(parameters_.rbegin(), parameters_.rend(), name,
                                       &std::pair<std::string, std::string>::first);
  return found == parameters_.rend() ? nullptr : &found->second;
}

std::optional<std::string> UrlQuery::Text(const std::string& name) {
  const std::string* const value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

Status UrlQuery::ReadText(const std::string& name, std::string* out) {
  const std::string* const value = Find(name);
  if (value == nullptr) return {};
  if (value->empty()) return InvalidArgument(fmt::format("'{}' is empty.", name), name);
  *out = *value;
  return {};
}

Status UrlQuery::ReadBool(const std::string& name, bool* out) {
  const std::string* const value = Find(name);
  if (value == nullptr) return {};
  if (*value != "true" && *value != "false") return MustBe(name, "true or false", *value);
  *out = *value == "true";
  return {};
}

Status UrlQuery::ReadInteger(const std::string& name, int64_t low, int64_t high,
                             std::optional<int64_t>* out) {
  const std::string* const value = Find(name);
  if (value == nullptr) return {};
  const std::optional<int64_t> number = base::ParseNumber<int64_t>(*value);
  if (!number || *number < low || *number > high) {
    return MustBe(name, fmt::format("an integer from {} to {}", low, high), *value);
  }
  *out = number;
  return {};
}

std::vector<std::string> UrlQuery::List(const std::string& name) {
  read_.insert({name, name + "[]"});
  std::vector<std::string> values;
  for (const auto& [key, value] : parameters_) {
    if (key == name || key == name + "[]") values.push_back(value);
  }
  return values;
}

std::vector<std::string> UrlQuery::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : parameters_) {
    if (!read_.contains(name) && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace ropeway::server
