#include "grammar/format_ebnf.h"

#include <fmt/format.h>

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

struct Format {
  const char* name;
  std::string regex;
};
const Format kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"date-time", std::string(kDate) + "T" + kTime},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email",
     "[A-Za-z0-9_+-]{1,12}(?:\\.[A-Za-z0-9_+-]{1,12}){0,2}"
     "@(?:[A-Za-z0-9]{1,10}(?:-[A-Za-z0-9]{1,10})?\\.){1,3}[A-Za-z]{2,8}"},
    {"ipv4",
     "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(?:\\.(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)){3}"},
};

}  // namespace

Ebnf::Node FormatString(const Place& place, PatternWriter* patterns) {
  const nlohmann::ordered_json& name = *Find(*place.schema, "format");
  for (const char* other : {"pattern", "minLength", "maxLength"}) {
    if (Find(*place.schema, other) != nullptr)
      Reject(place.path, fmt::format("the keyword '{}' is not supported beside 'format'", other));
  }
  std::string names;
  for (const Format& format : kFormats) {
    if (name == format.name) return patterns->WholeString(format.regex);
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", format.name);
  }
  Reject(place.path,
         fmt::format(
             "the keyword 'format' must be one of {}, not {}", names,
             name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 64)));
}

}  // namespace ropeway::grammar
