// Answers of tests: read in one piece, in two, cut everywhere, and byte by byte; with marks that
// are control tokens, and with plain ones.
#ifndef ROPEWAY_ANSWER_TEST_ANSWER_H_
#define ROPEWAY_ANSWER_TEST_ANSWER_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "answer/make_parser.h"

namespace ropeway::answer {

// The tools that may be called.
inline std::vector<std::string> TestTools() {
  return {"f", "g", "h", "add", "now", "write", "get_weather", "a.b-c", "ns.f-g"};
}

// What was read.
struct ReadAnswer {
  std::string reasoning;
  std::string text;
  std::vector<ToolCall> calls;

  // Names and arguments, a call a line.
  std::string Calls() const {
    std::string all;
    for (const ToolCall& call : calls) all += call.name + " " + call.arguments + "\n";
    return all;
  }
  // Whether all arguments are JSON objects.
  bool proper() const {
    for (const ToolCall& call : calls) {
      const auto json = nlohmann::json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) return false;
    }
    return true;
  }
  friend std::ostream& operator<<(std::ostream& out, const ReadAnswer& read) {
    return out << "[" << read.reasoning << "][" << read.text << "] " << read.Calls();
  }
  bool operator==(const ReadAnswer& other) const {
    return reasoning == other.reasoning && text == other.text && Calls() == other.Calls();
  }
};

inline ReadAnswer ReadPieces(const AnswerFormat& format, const AnswerOptions& options,
                             const std::vector<std::string>& pieces) {
  const std::unique_ptr<AnswerParser> parser = MakeAnswerParser(format, options);
  ReadAnswer read;
  const auto take = [&](const Delta& delta) {
    read.reasoning += delta.reasoning;
    read.text += delta.text;
    for (const ToolCallDelta& each : delta.tool_calls) {
      const bool begins = each.index == static_cast<int32_t>(read.calls.size());
      EXPECT_TRUE(begins || each.index + 1 == static_cast<int32_t>(read.calls.size()));
      EXPECT_EQ(begins, !each.name.empty()) << "the name comes with the first piece";
      EXPECT_EQ(begins, !each.id.empty());
      if (begins) read.calls.push_back({each.id, each.name, ""});
      read.calls.back().arguments += each.arguments;
    }
  };
  for (const std::string& piece : pieces) {
    Delta delta;
    parser->Add(piece, &delta);
    take(delta);
  }
  Delta delta;
  parser->Finish(&delta);
  take(delta);
  EXPECT_EQ(parser->calls(), static_cast<int>(read.calls.size()));
  return read;
}

// Reads `text` in all these ways, which must give the same.
inline ReadAnswer ReadEveryWay(std::string_view form, const std::string& text,
                               const AnswerOptions& options = {.tools = TestTools()}) {
  ReadAnswer plain;
  for (const bool controls : {false, true}) {
    StatusOr<AnswerFormat> format = DetectFormat("", true, {.tool_parser = form});
    EXPECT_TRUE(format.ok()) << form;
    if (!format.ok()) return {};
    Resolve([&](std::string_view) { return controls; }, &*format);
    std::string marked = text;
    for (const std::string& control : format->controls) {
      for (size_t at = marked.find(control); at != marked.npos; at = marked.find(control, at)) {
        marked.insert(at, 1, kControl);
        at += control.size() + 1;
      }
    }
    const ReadAnswer whole = ReadPieces(*format, options, {marked});
    if (!controls) plain = whole;
    EXPECT_EQ(whole, plain) << "control tokens: " << text;
    std::vector<std::string> bytes;
    for (size_t i = 0; i < marked.size(); ++i) {
      bytes.push_back(marked.substr(i, 1));
      EXPECT_EQ(ReadPieces(*format, options, {marked.substr(0, i), marked.substr(i)}), whole)
          << "cut at " << i << ": " << text;
    }
    EXPECT_EQ(ReadPieces(*format, options, bytes), whole) << text;
  }
  return plain;
}

// The calls of an answer that is nothing but proper calls.
inline std::string CallsAlone(std::string_view form, const std::string& text) {
  const ReadAnswer read = ReadEveryWay(form, text);
  EXPECT_EQ(read.text, "") << text;
  EXPECT_TRUE(read.proper()) << read.Calls();
  return read.Calls();
}

// Expects that the answer is text, all of it.
inline void ExpectNoCall(std::string_view form, const std::string& text) {
  const ReadAnswer read = ReadEveryWay(form, text);
  EXPECT_EQ(read.Calls(), "") << text;
  EXPECT_EQ(read.text, text);
}

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_TEST_ANSWER_H_
