#include "cli/flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "flags/units.h"

namespace ropeway {
namespace {

// CLI11 joins the placeholder and the validators' descriptions with it.
constexpr char kSeparator = ':';

template <typename T>
bool ParseAll(const std::string& text, T* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end;
}

auto DurationFrom(std::chrono::milliseconds least) {
  return [least](const std::string& text) -> StatusOr<std::chrono::milliseconds> {
    auto value = ParseDuration(text);
    if (!value.ok() || *value >= least) return value;
    return InvalidArgument(
        fmt::format("expected at least {}, not '{}'", FormatDuration(least), text));
  };
}

auto SizeFrom(int64_t least) {
  return [least](const std::string& text) -> StatusOr<int64_t> {
    auto value = ParseSize(text);
    if (!value.ok() || *value >= least) return value;
    return InvalidArgument(fmt::format("expected at least {}, not '{}'", FormatSize(least), text));
  };
}

CLI::Validator OneOf(const std::vector<std::string>& choices) {
  return {[choices](std::string& text) {
            for (const std::string& choice : choices) {
              if (choice == text) return std::string();
            }
            return fmt::format("expected {}, not '{}'", fmt::join(choices, ", "), text);
          },
          fmt::format("{}", fmt::join(choices, "|"))};
}

StatusOr<int64_t> ParseRate(const std::string& text) {
  if (text == "auto") return int64_t{0};
  if (text.ends_with("/s")) {
    const StatusOr<int64_t> size = ParseSize(std::string_view(text).substr(0, text.size() - 2));
    if (size.ok() && *size > 0) return size;
  }
  return InvalidArgument(
      fmt::format("expected auto, or bytes per second such as 20MiB/s, not '{}'", text));
}

}  // namespace

CLI::Validator IntBetween(int64_t least, int64_t most) {
  const std::string bounds = fmt::format("{} to {}", least, most);
  return {[=](std::string& text) {
            int64_t value = 0;
            if (ParseAll(text, &value) && value >= least && value <= most) return std::string();
            return fmt::format("expected a whole number, {}, not '{}'", bounds, text);
          },
          bounds};
}

CLI::Validator NumberBetween(double least, double most) {
  const std::string bounds = fmt::format("{:g} to {:g}", least, most);
  return {[=](std::string& text) {
            double value = 0;
            if (ParseAll(text, &value) && value >= least && value <= most) return std::string();
            return fmt::format("expected a number, {}, not '{}'", bounds, text);
          },
          bounds};
}

CLI::Validator NotEmpty() {
  return {[](std::string& text) {
            return text.empty() ? std::string("expected a value, not an empty one") : "";
          },
          ""};
}

CLI::Option* AddText(CLI::App* app, const std::string& name, std::string* value,
                     const std::string& placeholder, const std::string& description) {
  return app->add_option(name, *value, description)->type_name(placeholder)->capture_default_str();
}

CLI::Option* AddTexts(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                      const std::string& placeholder, const std::string& description) {
  // By hand: for a vector CLI11 would take "[a,b]" for two values, and all words that follow.
  const CLI::callback_t callback = [values](const CLI::results_t& results) {
    *values = results;
    return true;
  };
  return app->add_option(name, CLI::callback_t(callback), description)
      ->type_name(placeholder)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

CLI::Option* AddChoice(CLI::App* app, const std::string& name, std::string* value,
                       const std::vector<std::string>& choices, const std::string& description) {
  return app->add_option(name, *value, description)
      ->type_name("NAME")
      ->check(OneOf(choices))
      ->capture_default_str();
}

CLI::Option* AddOnOff(CLI::App* app, const std::string& name, bool* value,
                      const std::string& description) {
  return AddParsed(
             app, name, "NAME", description,
             [](const std::string& text) -> StatusOr<bool> { return text == "on"; },
             [value](bool parsed) { *value = parsed; })
      ->check(OneOf({"on", "off"}))
      ->default_str(*value ? "on" : "off");
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name, std::chrono::milliseconds* value,
                         const std::string& description, std::chrono::milliseconds least) {
  return AddParsed(app, name, kTimePlaceholder, description, DurationFrom(least),
                   [value](std::chrono::milliseconds parsed) { *value = parsed; })
      ->default_str(FormatDuration(*value));
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name,
                         std::optional<std::chrono::milliseconds>* value,
                         const std::string& description, std::chrono::milliseconds least) {
  return AddParsed(app, name, kTimePlaceholder, description, DurationFrom(least),
                   [value](std::chrono::milliseconds parsed) { *value = parsed; });
}

CLI::Option* AddSize(CLI::App* app, const std::string& name, int64_t* value, int64_t least,
                     const std::string& description) {
  return AddParsed(app, name, kSizePlaceholder, description, SizeFrom(least),
                   [value](int64_t parsed) { *value = parsed; })
      ->default_str(FormatSize(*value));
}

CLI::Option* AddSize(CLI::App* app, const std::string& name, size_t* value, int64_t least,
                     const std::string& description) {
  return AddParsed(app, name, kSizePlaceholder, description, SizeFrom(least),
                   [value](int64_t parsed) { *value = static_cast<size_t>(parsed); })
      ->default_str(FormatSize(static_cast<int64_t>(*value)));
}

CLI::Option* AddRate(CLI::App* app, const std::string& name, int64_t* value,
                     const std::string& description) {
  return AddParsed(app, name, kRatePlaceholder, description, ParseRate,
                   [value](int64_t parsed) { *value = parsed; })
      ->default_str(*value == 0 ? "auto" : FormatSize(*value) + "/s");
}

FlagKind KindOf(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return FlagKind::kSwitch;
  const std::string placeholder = PlaceholderOf(option);
  if (placeholder == kIntPlaceholder) return FlagKind::kInt;
  if (placeholder == kIntOrAutoPlaceholder) return FlagKind::kIntOrAuto;
  if (placeholder == kNumberPlaceholder) return FlagKind::kNumber;
  if (placeholder == kTimePlaceholder) return FlagKind::kTime;
  if (placeholder == kSizePlaceholder) return FlagKind::kSize;
  return FlagKind::kText;
}

bool IsList(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
         option.get_expected_max() > 1;
}

std::string PlaceholderOf(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::string full = option.get_type_name();
  const std::string name = full.substr(0, full.find(kSeparator));
  if (name == "INT" || name == "UINT") return kIntPlaceholder;
  return name == "FLOAT" ? kNumberPlaceholder : name;
}

std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string bounds = BoundsOf(option);
  if (PlaceholderOf(option) != "NAME" || bounds.empty()) return {};
  return CLI::detail::split(bounds, '|');
}

std::string BoundsOf(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const size_t at = name.find(kSeparator);
  return at == std::string::npos ? "" : name.substr(at + 1);
}

}  // namespace ropeway
