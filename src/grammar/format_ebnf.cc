#include "grammar/format_ebnf.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace ropeway::grammar {

namespace {

// Months of 31 and of 30 days, February, and its 29th in leap years.
constexpr char kDate[] =
    "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
    "|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)";
constexpr char kTime[] =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";

constexpr char kHourPart[] =
    "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)";
constexpr char kLabel[] = "[A-Za-z0-9]{1,10}(?:-[A-Za-z0-9]{1,10})?";
constexpr char kHexGroup[] = "[0-9a-fA-F]{1,4}";

std::string Duration() {
  return fmt::format(
      "P(?:\\d{{1,4}}W|(?:\\d{{1,4}}Y(?:\\d{{1,4}}M(?:\\d{{1,4}}D)?)?|\\d{{1,4}}M(?:\\d{{1,4}}D)?"
      "|\\d{{1,4}}D)(?:{0})?|{0})",
      kHourPart);
}

// All eight groups, or fewer with :: in place of at least one.
std::string Ipv6() {
  std::string regex =
      fmt::format("(?:{0}:){{7}}{0}|::|(?:{0}:){{1,7}}:|:(?::{0}){{1,7}}", kHexGroup);
  for (int before = 1; before <= 6; ++before) {
    regex += fmt::format("|(?:{0}:){{{1}}}(?::{0}){{1,{2}}}", kHexGroup, before, 7 - before);
  }
  return "(?:" + regex + ")";
}

// The last label has letters alone, as hosts that end in a number are read as IPv4 addresses.
std::string Uri() {
  return fmt::format(
      "https?://(?:{}\\.){{1,3}}[A-Za-z]{{2,8}}(?::[1-9]\\d{{0,3}})?"
      "(?:/[A-Za-z0-9._~/-]{{0,200}})?(?:\\?[A-Za-z0-9._~=&-]{{0,100}})?",
      kLabel);
}

std::string Uuid(char version) {
  return fmt::format(
      "[0-9a-f]{{8}}-[0-9a-f]{{4}}-{}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}", version);
}

struct Format {
  const char* name;
  std::string regex;
};
const Format kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"date-time", std::string(kDate) + "T" + kTime},
    {"duration", Duration()},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email", fmt::format("[A-Za-z0-9_+-]{{1,12}}(?:\\.[A-Za-z0-9_+-]{{1,12}}){{0,2}}"
                          "@(?:{}\\.){{1,3}}[A-Za-z]{{2,8}}",
                          kLabel)},
    {"hostname", fmt::format("{0}(?:\\.{0}){{0,3}}", kLabel)},
    {"ipv4",
     "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(?:\\.(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)){3}"},
    {"ipv6", Ipv6()},
    {"uri", Uri()},
    // Not of JSON Schema; Pydantic's. The last character of base64 has no bits that are left over.
    {"uuid1", Uuid('1')},
    {"uuid3", Uuid('3')},
    {"uuid4", Uuid('4')},
    {"uuid5", Uuid('5')},
    {"base64",
     "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"},
    {"base64url",
     "(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw]==|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=)?"},
};

// Names that say what a string is for, and that any string fits: no draft of JSON Schema has them.
constexpr const char* kAnyStringFormats[] = {"binary", "directory-path", "file-path", "password",
                                             "path"};

}  // namespace

std::optional<Ebnf::Node> FormatString(const Place& place, PatternWriter* patterns) {
  const nlohmann::ordered_json& name = *Find(*place.schema, "format");
  std::string names;
  for (const char* any : kAnyStringFormats) {
    if (name == any) return std::nullopt;
    names += fmt::format(", '{}'", any);
  }
  if (Find(*place.schema, "pattern") != nullptr)
    Reject(place.path, "the keyword 'pattern' is not supported beside 'format'");
  std::string enforced;
  for (const Format& format : kFormats) {
    if (name == format.name) return patterns->WholeString(place, format.regex);
    enforced += fmt::format("{}'{}'", enforced.empty() ? "" : ", ", format.name);
  }
  Reject(place.path,
         fmt::format(
             "the keyword 'format' must be one of {}{}, not {}", enforced, names,
             name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 64)));
}

}  // namespace ropeway::grammar
