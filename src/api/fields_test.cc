#include "api/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/openai_format.h"
#include "core/parameters.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

// docs/api.md up to its section on answers.
std::string FieldsPage() {
  const std::filesystem::path room = std::filesystem::path(__FILE__).parent_path();
  std::ifstream file(room.parent_path().parent_path() / "docs" / "api.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  return page.substr(0, page.find("\n## Answers") + 1);
}

// "1,024" of 1024.
std::string WithCommas(size_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

// The first three cells of a parameter's row; where a default is none that a number says, two.
struct DocumentedRow {
  std::string operator()(float value) const {
    const std::string type = row.above_low ? fmt::format("above {}, to {}", row.low, row.high)
                                           : fmt::format("{} to {}", row.low, row.high);
    return fmt::format("| {} | {} | {} |", names, type, value);
  }
  std::string operator()(int32_t value) const {
    return fmt::format("| {} | integer >= {} | {} |", names, row.low, value);
  }
  std::string operator()(const std::vector<LogitBias>&) const {
    return fmt::format("| {} | object, at most {} entries |", names, WithCommas(row.most));
  }
  std::string operator()(const std::vector<std::string>&) const {
    return fmt::format("| {} | string, or a list of at most {} |", names, row.most);
  }
  std::string operator()(const std::vector<TokenId>&) const {
    return fmt::format("| {} | list of at most {} ids |", names, row.most);
  }
  std::string operator()(const std::string&) const {
    return fmt::format("| {} | string of {} to {} bytes |", names, row.low, row.high);
  }
  std::string operator()(bool) const { return fmt::format("| {} | boolean | false |", names); }
  std::string operator()(const std::optional<uint64_t>&) const {
    return fmt::format("| {} | 0 to 2^64-1;", names);
  }
  std::string operator()(const std::optional<int32_t>&) const {
    return fmt::format("| {} | integer >= {} |", names, row.low);
  }

  const core::Parameter& row;
  const std::string names;
};

// "`repetition_penalty`, `repeat_penalty`".
std::string NamesOf(const core::Parameter& row) {
  std::string names = fmt::format("`{}`", row.name);
  for (const char* alias : row.aliases) {
    if (alias != nullptr) names += fmt::format(", `{}`", alias);
  }
  return names;
}

TEST(FieldsTest, TheDocumentHasTheParametersRows) {
  const std::string page = FieldsPage();
  const Request request;
  for (const core::Parameter& row : core::Parameters()) {
    const std::string cells = core::VisitValue(row, request, DocumentedRow{row, NamesOf(row)});
    EXPECT_NE(page.find(cells), std::string::npos) << "docs/api.md does not have: " << cells;
  }
}

TEST(FieldsTest, TheDocumentHasAllFieldsThatAreUsed) {
  std::set<std::string> used;
  for (const auto* table : {&CompletionFields(), &ChatFields()}) {
    for (const auto& [name, reader] : table->readers) used.insert(name);
  }
  used.erase("ropeway_gateway");  // It has a section of its own.
  const std::string page = FieldsPage().substr(0, FieldsPage().find("\n| accepted |"));
  std::set<std::string> documented;
  const std::regex row("\n\\| ((`[a-z_]+`(, | or )?)+) \\| [^|]+ \\|[^|]+\\|[^|\n]+\\|");
  const std::regex name("`([a-z_]+)`");
  for (auto at = std::sregex_iterator(page.begin(), page.end(), row); at != std::sregex_iterator();
       ++at) {
    const std::string names = (*at)[1];
    for (auto it = std::sregex_iterator(names.begin(), names.end(), name);
         it != std::sregex_iterator(); ++it) {
      documented.insert((*it)[1]);
    }
  }
  EXPECT_EQ(documented, used);
}

// A line for each value, with the fields of both dialects, of completions and of chats.
TEST(FieldsTest, TheDocumentHasAllFieldsThatAreNotUsed) {
  std::vector<std::pair<std::string, std::map<uint32_t, std::vector<std::string>>>> lines;
  constexpr uint32_t kBoth = kCompletions | kChat;
  for (const FieldRow& row : FieldRows()) {
    if ((row.dialects & kBoth) == 0) continue;  // Of another page.
    std::string values = *row.values == 0 ? "any" : fmt::format("any: {}", row.values);
    if (row.kind == FieldKind::kNoEffectWith) values = fmt::format("`{}`", row.values);
    if (row.kind == FieldKind::kUnsupported) values = "none: it is not supported";
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const auto& known) { return known.first == values; });
    if (line == lines.end()) line = lines.insert(line, {values, {}});
    line->second[row.dialects & kBoth].push_back(fmt::format("`{}`", row.name));
  }
  std::string table =
      "| accepted | of both | of completions | of chats |\n| --- | --- | --- | --- |";
  for (auto& [values, fields] : lines) {
    table += fmt::format("\n| {} |", values);
    for (const uint32_t dialects : {kBoth, uint32_t{kCompletions}, uint32_t{kChat}}) {
      table += fmt::format(" {}{}|", fmt::join(fields[dialects], ", "),
                           fields[dialects].empty() ? "" : " ");
    }
  }
  EXPECT_NE(FieldsPage().find("\n" + table + "\n\n"), std::string::npos)
      << "docs/api.md does not have:\n"
      << table;
}

TEST(FieldsTest, AFieldIsOneRowAndIsNotUsedBeside) {
  std::set<std::pair<std::string, uint32_t>> rows;
  for (const FieldRow& row : FieldRows()) {
    for (const auto* table : {&CompletionFields(), &ChatFields()}) {
      if ((row.dialects & table->dialect) == 0) continue;
      EXPECT_TRUE(rows.emplace(row.name, table->dialect).second) << row.name;
      EXPECT_FALSE(table->readers.contains(row.name)) << row.name;
    }
  }
}

TEST(FieldsTest, AFieldIsCheckedByItsKind) {
  const auto message = [](Dialect dialect, const char* name, const char* value) {
    const FieldRow* row = FindField(dialect, name);
    return row == nullptr ? "no row" : CheckField(*row, json::parse(value), name).message();
  };
  EXPECT_EQ(message(kChat, "function_call", "\"auto\""), "");
  EXPECT_EQ(message(kChat, "function_call", "\"f\""),
            "'function_call' is not supported; use 'tool_choice'.");
  EXPECT_EQ(message(kChat, "functions", R"([{"name":"f"}])"),
            "'functions' is not supported; use 'tools'.");
  EXPECT_EQ(message(kTokenize, "messages[].function_call", R"({"name":"f"})"),
            "'messages[].function_call' is not supported; use 'tool_calls'.");
  EXPECT_EQ(message(kCompletions, "function_call", "\"auto\""), "no row");
  for (const char* none : {"[]", "{}", "\"\"", "false"}) {
    for (const char* name :
         {"functions", "messages[].function_call", "messages[].audio", "messages[].refusal"}) {
      EXPECT_EQ(message(kChat, name, none), "") << "as empty as any";
    }
  }
  EXPECT_EQ(message(kTokenize, "messages[].audio", "[1]"), "'messages[].audio' supports only [].");
  EXPECT_EQ(message(kChat, "length_penalty", "1.0"), "");
  EXPECT_EQ(message(kCompletions, "use_beam_search", "0"),
            "'use_beam_search' must be false, but is 0.");
  EXPECT_EQ(message(kCompletions, "mirostat", "2"), "'mirostat' supports only 0.");
  EXPECT_EQ(message(kChat, "keep_alive", "{}"), "");
  EXPECT_EQ(message(kChat, "metadata", R"({"a":1})"),
            "'metadata' must be an object of strings, but is an object.");
  EXPECT_EQ(message(kCompletions, "suffix", "\"\""), "") << "none";
  EXPECT_EQ(message(kCompletions, "suffix", "\"x\""), "'suffix' is not supported.");
  EXPECT_EQ(message(kCompletions, "skip_special_tokens", "false"),
            "'skip_special_tokens' supports only true.");
}

// By the fields that it is about, whatever its text quotes.
TEST(FieldsTest, WhatIsWrongTogetherIsToldWhereEachFieldIsRight) {
  const BodyLimits limits;
  const auto told = [&](const std::string& known, std::initializer_list<std::string_view> others) {
    FieldReport report(kChat, limits);
    report.Add(InvalidArgument("One.", known));
    report.AddTogether(InvalidArgument("'n' and 'stop' do not fit.", "n"), others);
    return report.status().message() != "One.";
  };
  EXPECT_FALSE(told("n", {}));
  EXPECT_FALSE(told("n[2].x", {}));
  EXPECT_FALSE(told("stop", {"stop"}));
  EXPECT_FALSE(told("stop.a", {"seed", "stop"}));
  EXPECT_TRUE(told("stop", {}));
  EXPECT_TRUE(told("stop", {"seed"}));
  EXPECT_TRUE(told("nn", {"stop"}));
}

TEST(FieldsTest, TheHeaderIsPrintableAndBounded) {
  EXPECT_EQ(IgnoredHeader({}), "");
  EXPECT_EQ(IgnoredHeader({""}), "\"\"") << "no empty header";
  EXPECT_EQ(IgnoredHeader({"a", "b c", "d,e", "\r\nx: y", "\xC3\xA9%"}),
            "a, b%20c, d%2Ce, %0D%0Ax:%20y, %C3%A9%25");
  EXPECT_EQ(IgnoredHeader(std::vector<std::string>(9, "n")), "n, n, n, n, n, n, n, n, and 1 more");
  const std::string most = IgnoredHeader(std::vector<std::string>(8, std::string(64, ',')));
  EXPECT_EQ(most.size(), 192 + std::string(", and 7 more").size()) << "one name of 64 bytes";
}

}  // namespace
}  // namespace ropeway::api
