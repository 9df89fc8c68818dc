#include "cli/help_formatter.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "cli/flags.h"

namespace ropeway {
namespace {

constexpr size_t kColumn = 30;  // Where descriptions begin.
constexpr size_t kWidth = 100;

// "  left      words of the description, wrapped to their column".
std::string Entry(const std::string& left, const std::string& description) {
  std::string text = "  " + left;
  size_t used = text.size();
  const std::string new_line = "\n" + std::string(kColumn, ' ');
  if (used + 2 > kColumn) {
    text += new_line;
  } else {
    text.append(kColumn - used, ' ');
  }
  used = kColumn;
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    if (used > kColumn && used + 1 + word.size() > kWidth) {
      text += new_line;
      used = kColumn;
    } else if (used > kColumn) {
      text += ' ';
      ++used;
    }
    text += word;
    used += word.size();
  }
  return text + "\n";
}

// What follows the description in brackets: default, bounds, environment.
std::string Remarks(const CLI::Option& option) {
  std::vector<std::string> remarks;
  if (option.get_required()) remarks.emplace_back("required");
  if (!option.get_default_str().empty()) {
    remarks.push_back("default: " + option.get_default_str());
  }
  if (ChoicesOf(option).empty() && !BoundsOf(option).empty()) remarks.push_back(BoundsOf(option));
  if (IsList(option)) remarks.emplace_back("may be repeated");
  if (!option.get_envname().empty()) remarks.push_back("environment: " + option.get_envname());
  return remarks.empty() ? "" : fmt::format(" [{}]", fmt::join(remarks, "; "));
}

std::string Flag(const CLI::Option& option) {
  std::string left;
  for (const std::string& name : option.get_snames()) left += "-" + name + ", ";
  if (left.empty()) left = "    ";
  for (const std::string& name : option.get_lnames()) left += "--" + name + ", ";
  left.resize(left.size() - 2);
  const std::string placeholder = PlaceholderOf(option);
  if (!placeholder.empty()) left += " " + placeholder;
  return Entry(left, option.get_description() + Remarks(option));
}

std::string Usage(const CLI::App& app, const std::string& name) {
  std::string usage = "Usage: " + name;
  const bool commands = !app.get_subcommands(nullptr).empty();
  usage += commands ? " COMMAND" : "";
  usage += " [FLAGS]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string word = option->get_name(true);
    usage += option->get_required() ? " " + word : " [" + word + "]";
  }
  return usage + "\n";
}

std::string Positionals(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    text += Entry(option->get_name(true), option->get_description());
  }
  return text.empty() ? "" : "\nArguments:\n" + text;
}

std::string Commands(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    text += Entry(command->get_name(), command->get_description());
  }
  return text.empty() ? "" : "\nCommands:\n" + text;
}

const CLI::App& RootOf(const CLI::App& app) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) root = root->get_parent();
  return *root;
}

constexpr char kLastGroup[] = "Other";

std::string Group(const CLI::App& app, const std::string& group) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional()) continue;
    const bool help = option == app.get_help_ptr();
    if ((help ? kLastGroup : option->get_group()) == group) text += Flag(*option);
  }
  const CLI::Option* config = RootOf(app).get_config_ptr();
  if (group == kLastGroup && app.get_parent() != nullptr && config != nullptr)
    text += Flag(*config);
  return text.empty() ? "" : "\n" + group + ":\n" + text;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode) const {
  std::string text =
      app->get_description() + "\n\n" + Usage(*app, name) + Positionals(*app) + Commands(*app);
  for (const std::string& group : app->get_groups()) {
    if (!group.empty() && group != kLastGroup) text += Group(*app, group);
  }
  text += Group(*app, kLastGroup);
  if (!app->get_footer().empty()) text += "\n" + app->get_footer() + "\n";
  return text;
}

}  // namespace ropeway
