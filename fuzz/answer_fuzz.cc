// A chat's answer, in each form that models write thoughts and calls of tools in. However it is cut
// into pieces, the same is read from it; what is no call is text; what was UTF-8 stays UTF-8; and
// the time is linear.
//
// The first byte of an input is the form of calls (in the order of CallFormNames), the second the
// form of thoughts, the third says of the request: bit 0: it has tools; bit 1: its prompt ends
// within a thought; bit 2: marks are control tokens; the rest of it is the seed of the cuts. Then
// comes the answer, in which the byte 0xFF makes a control token of the mark behind it.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer/make_parser.h"
#include "base/chat_size.h"
#include "base/random.h"
#include "base/utf8.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

// Signs of templates, for each form of thoughts.
constexpr const char* kTemplates[] = {"",
                                      "</think>",
                                      "[THINK]",
                                      "<|channel>thought",
                                      "<|START_THINKING|>",
                                      "</seed:think>",
                                      "<|channel|> <|message|>"};
// Of the arguments of two tools: a string, a value of another type, and one of either.
constexpr const char* kSchema = R"({"properties":
    {"s":{"type":"string"},"o":{"type":["object","array","number"]},"e":{"type":["string","null"]}}})";
// Processor time of three readings of 64 KiB. Sanitizers take a multiple of what is meant.
constexpr double kMostSeconds = 10;

struct Parts {
  std::string reasoning;
  std::string text;
  std::vector<ToolCall> calls;
};

bool Same(const ToolCall& a, const ToolCall& b) {
  return a.id == b.id && a.name == b.name && a.arguments == b.arguments;
}

bool Same(const Parts& a, const Parts& b) {
  return a.reasoning == b.reasoning && a.text == b.text &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(),
                    [](const ToolCall& x, const ToolCall& y) { return Same(x, y); });
}

void Take(const Delta& delta, Parts* parts) {
  parts->reasoning += delta.reasoning;
  parts->text += delta.text;
  for (const ToolCallDelta& each : delta.tool_calls) {
    const auto count = static_cast<int32_t>(parts->calls.size());
    Require(each.index == count || each.index + 1 == count, "calls come out of order");
    Require((each.index == count) == !each.name.empty(), "a name stands elsewhere than first");
    Require((each.index == count) == !each.id.empty(), "an id stands elsewhere than first");
    if (each.index == count) parts->calls.push_back({each.id, each.name, ""});
    parts->calls.back().arguments += each.arguments;
  }
}

Parts Read(const answer::AnswerFormat& format, const answer::AnswerOptions& options,
           std::string_view text, const std::function<size_t()>& next) {
  const std::unique_ptr<answer::AnswerParser> parser = answer::MakeAnswerParser(format, options);
  Parts parts;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, next());
    Delta delta;
    parser->Add(piece, &delta);
    Take(delta, &parts);
    text.remove_prefix(piece.size());
  }
  Delta delta;
  parser->Finish(&delta);
  Take(delta, &parts);
  Require(parser->calls() == static_cast<int>(parts.calls.size()), "calls are counted wrongly");
  for (const ToolCall& call : parts.calls) {
    // It may have no arguments: those of a call that is cut are as they came.
    Require(!call.name.empty(), "a call has no name");
  }
  return parts;
}

std::string WithoutControls(std::string_view text) {
  std::string plain(text);
  std::erase(plain, answer::kControl);
  return plain;
}

// Whether all between the signs of control tokens is UTF-8.
bool IsMarkedUtf8(std::string_view text) {
  while (true) {
    const size_t control = text.find(answer::kControl);
    if (!base::IsValidUtf8(text.substr(0, control))) return false;
    if (control == text.npos) return true;
    text.remove_prefix(control + 1);
  }
}

void RequireUtf8(const Parts& parts) {
  Require(base::IsValidUtf8(parts.reasoning), "thoughts are not UTF-8");
  Require(base::IsValidUtf8(parts.text), "the text is not UTF-8");
  for (const ToolCall& call : parts.calls) {
    Require(base::IsValidUtf8(call.id), "an id is not UTF-8");
    Require(base::IsValidUtf8(call.name), "a name is not UTF-8");
    Require(base::IsValidUtf8(call.arguments), "arguments are not UTF-8");
  }
}

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropeway;
  using namespace ropeway::fuzz;
  if (size < 3) return 0;
  static const std::vector<std::string_view> forms = answer::CallFormNames();
  const std::string_view form = forms[data[0] % forms.size()];
  auto format = answer::DetectFormat(kTemplates[data[1] % std::size(kTemplates)], true,
                                     {.tool_parser = form});
  Require(format.ok(), "no form has this name");
  const bool controls = (data[2] & 4U) != 0;
  answer::Resolve([&](std::string_view) { return controls; }, &*format);
  answer::AnswerOptions options{.in_thought = (data[2] & 2U) != 0, .digest = data[2]};
  if ((data[2] & 1U) != 0) {
    options.tools = {"f", "g", "add"};
    options.types.assign(2, answer::ReadArgumentTypes(kSchema));
  }
  base::SeededRandom random(data[2]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);

  const double before = Seconds();
  const Parts whole = Read(*format, options, text, [&] { return text.size(); });
  Require(Same(whole, Read(*format, options, text, [] { return size_t{1}; })),
          "bytes make another answer");
  Require(Same(whole, Read(*format, options, text, [&] { return 1 + random.Below(40); })),
          "pieces make another answer");
  Require(Seconds() - before < kMostSeconds, "it takes too long");

  if (IsMarkedUtf8(text)) RequireUtf8(whole);
  Require(whole.calls.size() <= base::kMostCalls, "there are too many calls");
  for (const ToolCall& call : whole.calls) {
    Require(std::ranges::find(options.tools, call.name) != options.tools.end(),
            "what is no tool is called");
    Require(call.id.size() <= base::kMostCallNameBytes, "an id is too long");
  }
  const bool channels = answer::HasChannels(*format);
  if (whole.calls.empty() && !controls && !channels && format->reasoning.close.empty()) {
    Require(whole.reasoning.empty(), "a model that does not think does");
    Require(whole.text == WithoutControls(text), "text is lost");
  }
  return 0;
}
