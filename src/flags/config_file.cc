#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/system.h"
#include "base/toml_bounds.h"
#include "base/utf8.h"
#include "base/words.h"
#include "flags/program.h"

namespace ropeway::flags {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

// What a configuration file holds for a value of this kind.
const char* TomlType(ValueKind kind) {
  switch (kind) {
    case ValueKind::kSwitch:
      return "true or false";
    case ValueKind::kInt:
      return "an integer";
    case ValueKind::kIntOrAuto:
      return "an integer, or \"auto\"";
    case ValueKind::kNumber:
      return "a number";
    case ValueKind::kTime:
      return "a string such as \"30s\"";
    case ValueKind::kSize:
      return "a string such as \"48MiB\", or an integer";
    case ValueKind::kText:
      break;
  }
  return "a string";
}

// What else it may hold.
const char* OrSeveral(const FlagValue& value) {
  if (!value.repeated) return "";
  return value.table_key.empty() ? " or an array of strings" : ", a table, or an array of these";
}

const char* TypeName(const toml::node& value) {
  switch (value.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

// The value as the command line would give it; nullopt for one of the wrong type.
std::optional<std::string> TextOf(ValueKind kind, const toml::node& value) {
  if (const auto* truth = value.as_boolean()) {
    if (kind == ValueKind::kSwitch) return truth->get() ? "true" : "false";
  } else if (const auto* whole = value.as_integer()) {
    if (kind == ValueKind::kInt || kind == ValueKind::kIntOrAuto || kind == ValueKind::kNumber ||
        kind == ValueKind::kSize) {
      return fmt::format("{}", whole->get());
    }
  } else if (const auto* number = value.as_floating_point()) {
    if (kind == ValueKind::kNumber) return fmt::format("{}", number->get());
  } else if (const auto* text = value.as_string()) {
    if (kind == ValueKind::kText || kind == ValueKind::kTime || kind == ValueKind::kSize ||
        kind == ValueKind::kIntOrAuto) {
      return text->get();
    }
  }
  return std::nullopt;
}

// What a member of a table is in the text that the table stands for (FlagValue::table_key).
StatusOr<std::string> MemberText(const std::string& name, const toml::node& node) {
  std::optional<std::string> text;
  for (const ValueKind kind : {ValueKind::kText, ValueKind::kNumber, ValueKind::kSwitch}) {
    if (!text) text = TextOf(kind, node);
  }
  if (!text) {
    return InvalidArgument(fmt::format("'{}' must be a string, a number, true or false, not {}",
                                       name, TypeName(node)));
  }
  if (text->find(',') != std::string::npos) {
    return InvalidArgument(fmt::format("'{}' must not contain a comma", name));
  }
  return *std::move(text);
}

// The text that a table stands for: `first` holds its beginning, an array gives its key several
// times. Of a failure a sentence without its full stop.
StatusOr<std::string> TableText(const std::string& first, const toml::table& table) {
  std::string before;
  std::string behind;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    std::vector<const toml::node*> members = {&node};
    if (const toml::array* const array = node.as_array()) {
      members.clear();
      for (const toml::node& element : *array) members.push_back(&element);
    }
    for (const toml::node* const member : members) {
      const StatusOr<std::string> text = MemberText(name, *member);
      if (!text.ok()) return text.status();
      if (name == first) {
        before = *text;
      } else {
        behind += fmt::format(",{}={}", name, *text);
      }
    }
  }
  if (before.empty()) return InvalidArgument(fmt::format("the table has no '{}'", first));
  return before + behind;
}

// A flag and the name of it that a key stands for.
struct NamedFlag {
  const Flag* flag = nullptr;
  FlagName name;
};

std::optional<NamedFlag> FindFlag(const FlagTable& table, const std::string& key) {
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) {
      for (const FlagName& name : NamesOf(flag)) {
        if (name.text == "--" + key) return NamedFlag{&flag, name};
      }
    }
  }
  return std::nullopt;
}

// Walks one file's tables and stops at the first thing that is wrong.
class Reader {
 public:
  // `program`: its name.
  Reader(std::string program, std::string file, std::set<const Flag*>* given)
      : program_(std::move(program)), file_(std::move(file)), given_(given) {}

  // `section`: as written in the file, "serve" or "bench.serve"; "" at the top.
  Status ReadTable(const std::vector<Command>& commands, const FlagTable& flags,
                   const std::string& section, const toml::table& table) const {
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      const toml::table* const inner = value.as_table();
      const auto flag = FindFlag(flags, name);
      const bool is_section = inner != nullptr && (!flag || flag->flag->value.table_key.empty());
      Status status = is_section ? ReadSection(commands, section, key, *inner)
                                 : ReadFlag(flags, section, key, value);
      if (!status.ok()) return status;
    }
    return {};
  }

 private:
  Status Wrong(const toml::source_region& at, const std::string& what) const {
    // It may quote the file.
    return InvalidArgument(
        fmt::format("{}:{}: {}", file_, at.begin.line, base::PrintableText(what)));
  }

  Status ReadSection(const std::vector<Command>& commands, const std::string& section,
                     const toml::key& key, const toml::table& table) const {
    const std::string name(key.str());
    const std::string before = section.empty() ? "" : section + ".";
    std::vector<std::string> sections;
    for (const Command& command : commands) {
      if (command.name == name) {
        return ReadTable(command.commands, command.flags, before + name, table);
      }
      sections.push_back(fmt::format("[{}{}]", before, command.name));
    }
    return Wrong(key.source(),
                 sections.empty()
                     ? fmt::format("unknown section '{}': [{}] has no sections", name, section)
                     : fmt::format("unknown section '{}'; expected one of {}", name,
                                   fmt::join(sections, ", ")));
  }

  Status ReadFlag(const FlagTable& flags, const std::string& section, const toml::key& key,
                  const toml::node& value) const {
    const std::string name(key.str());
    if (const auto found = FindFlag(flags, name)) return SetFlag(*found, value);
    if (section.empty()) {
      return Wrong(key.source(), fmt::format("unknown key '{}' outside of a section; expected a "
                                             "section with a command's name before it, such as "
                                             "[serve]",
                                             name));
    }
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    std::string words = section;
    std::replace(words.begin(), words.end(), '.', ' ');
    std::vector<std::string> names;
    for (const FlagGroup& group : flags) {
      for (const Flag& flag : group.flags) {
        for (const FlagName& one : NamesOf(flag)) {
          if (one.text.starts_with("--")) names.push_back(one.text.substr(2));
        }
      }
    }
    const std::string* const meant = base::Nearest(dashed, names, 2);
    return Wrong(key.source(),
                 meant != nullptr
                     ? fmt::format("unknown key '{}' in [{}]; expected '{}'", name, section, *meant)
                     : fmt::format("unknown key '{}' in [{}]; expected a flag of `{} {}` "
                                   "without its dashes",
                                   name, section, program_, words));
  }

  Status SetFlag(const NamedFlag& found, const toml::node& node) const {
    const FlagValue& value = found.flag->value;
    std::vector<std::string> texts;
    const auto add = [&](const toml::node& element) {
      if (element.is_table() && !value.table_key.empty()) {
        StatusOr<std::string> text = TableText(value.table_key, *element.as_table());
        if (!text.ok()) {
          return Wrong(element.source(),
                       fmt::format("{}: {}", MainName(*found.flag), text.status().message()));
        }
        texts.push_back(*std::move(text));
        return Status();
      }
      std::optional<std::string> text = TextOf(value.kind, element);
      if (!text) {
        return Wrong(element.source(),
                     fmt::format("'{}' must be {}{}, not {}", MainName(*found.flag).substr(2),
                                 TomlType(value.kind), OrSeveral(value), TypeName(element)));
      }
      if (found.name.negated) *text = *text == "true" ? "false" : "true";
      texts.push_back(*std::move(text));
      return Status();
    };
    const toml::array* const array = value.repeated ? node.as_array() : nullptr;
    if (array == nullptr) {
      if (Status status = add(node); !status.ok()) return status;
    } else {
      for (const toml::node& element : *array) {
        if (Status status = add(element); !status.ok()) return status;
      }
    }
    if (texts.empty() || !given_->insert(found.flag).second) return {};
    const Status status = value.set(texts);
    if (status.ok()) return status;
    return Wrong(node.source(), fmt::format("{}: {}", MainName(*found.flag), status.message()));
  }

  const std::string program_;
  const std::string file_;
  std::set<const Flag*>* const given_;
};

}  // namespace

Status ReadConfigFile(const Program& program, const std::string& file,
                      std::set<const Flag*>* given) {
  const std::optional<std::string> text = base::ReadFile(file, kMaxFileBytes);
  if (!text) return InvalidArgument(fmt::format("--config: cannot read '{}'", file));
  if (text->size() > kMaxFileBytes) {
    return InvalidArgument(
        fmt::format("--config: '{}' has more than {} bytes", file, kMaxFileBytes));
  }
  if (const std::optional<base::TomlFault> fault = base::FindTomlFault(*text)) {
    return InvalidArgument(fmt::format("{}:{}: {}", file, fault->line, fault->what));
  }
  try {
    return Reader(program.name, file, given)
        .ReadTable(program.commands, {}, "", toml::parse(*text, file));
  } catch (const toml::parse_error& e) {
    return InvalidArgument(fmt::format("{}:{}: not valid TOML: {}", file, e.source().begin.line,
                                       base::PrintableText(e.description())));
  }
}

}  // namespace ropeway::flags
