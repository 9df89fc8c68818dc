#include "api/wire_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/json.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using base::Member;

constexpr char kCalls[] = "tool_calls";
constexpr char kIndex[] = "tool_calls.index";
constexpr char kId[] = "tool_calls.id";
constexpr char kFunction[] = "tool_calls.function";
constexpr char kName[] = "tool_calls.function.name";
constexpr char kArguments[] = "tool_calls.function.arguments";

// A text that is whole: no half of a character in it has its other half elsewhere.
std::string WholeText(std::string_view text, bool marked) {
  HalfJoiner halves;
  std::string whole = halves.Join(std::string(text), marked);
  whole += halves.Rest();
  return whole;
}

std::string ShortText(const Json& value, const char* name, bool marked, FieldReader* fields) {
  std::string text = WholeText(fields->Text(value, name), marked);
  if (text.size() > AnswerReader::kMostNameBytes) {
    fields->Fault(name, fmt::format("with more than {} bytes", AnswerReader::kMostNameBytes));
  }
  return text;
}

size_t MessageCount(const Request& request) {
  const auto* const chat = std::get_if<Chat>(&request.prompt);
  return chat == nullptr ? 0 : chat->messages.size();
}

}  // namespace

AnswerReader::AnswerReader(const Request& request)
    : messages_(MessageCount(request)), resumes_(!request.resume_ids.empty()) {}

void AnswerReader::Add(std::string thought, std::string text, bool marked, Delta* delta) {
  delta->reasoning += thought_halves_.Join(std::move(thought), marked);
  // What waits for its other half comes before what follows it.
  if (!text.empty()) delta->reasoning += thought_halves_.Rest();
  delta->text += text_halves_.Join(std::move(text), marked);
}

void AnswerReader::AddCalls(const Json& list, bool marked, bool whole, FieldReader* fields,
                            Delta* delta) {
  for (const Json& entry : fields->List(list, kCalls)) {
    if (!entry.is_null()) AddCall(entry, marked, whole, fields, delta);
    if (!fields->fault().empty()) return;
  }
}

void AnswerReader::AddCall(const Json& entry, bool marked, bool whole, FieldReader* fields,
                           Delta* delta) {
  const Json& said = fields->Object(entry, kCalls);
  const Json& function = fields->Object(Member(said, "function"), kFunction);
  const std::optional<uint64_t> index = fields->Integer(Member(said, "index"), kIndex);
  std::string id = ShortText(Member(said, "id"), kId, marked, fields);
  std::string name = ShortText(Member(function, "name"), kName, marked, fields);
  const Json& value = Member(function, "arguments");
  std::string arguments = value.is_object()
                              ? value.dump(-1, ' ', false, Json::error_handler_t::replace)
                              : std::string(fields->Text(value, kArguments));
  if (!fields->fault().empty()) return;
  if (resumes_ && index) Resume(*index, !name.empty());
  Call* call = whole && !name.empty() ? nullptr : Find(index, id, name);
  ToolCallDelta more;
  if (call == nullptr) {
    if (name.empty()) return fields->Fault(kCalls, "with a call that has no name");
    if (calls_.size() == kMostCalls) {
      return fields->Fault(kCalls, fmt::format("with more than {} calls", kMostCalls));
    }
    // Of all answers of one conversation, each has another number of messages before it.
    more.id = id.empty() ? fmt::format("call_{}_{}", messages_, calls_.size()) : id;
    more.name = name;
    if (whole && value.is_null()) arguments = "{}";
    call = &calls_.emplace_back(Call{index, std::move(id), std::move(name), {}, false});
  }
  more.index = static_cast<int32_t>(call - calls_.data());
  call->any = call->any || !arguments.empty();
  more.arguments = call->halves.Join(std::move(arguments), marked);
  if (more.name.empty() && more.arguments.empty()) return;
  delta->reasoning += thought_halves_.Rest();
  delta->text += text_halves_.Rest();
  delta->tool_calls.push_back(std::move(more));
}

void AnswerReader::Resume(uint64_t index, bool begins) {
  if (index >= kMostCalls) return;
  const size_t known = static_cast<size_t>(index) + (begins ? 0 : 1);
  while (calls_.size() < known) calls_.push_back({calls_.size(), "", "", {}, true});
}

AnswerReader::Call* AnswerReader::Find(std::optional<uint64_t> index, std::string_view id,
                                       std::string_view name) {
  for (size_t i = calls_.size(); i-- > 0;) {
    Call& call = calls_[i];
    if (index && call.index != index) continue;
    if (name.empty()) return &call;
    // Some servers repeat the name in each piece.
    const bool same = id.empty() ? index && name == call.name : id == call.id;
    return same ? &call : nullptr;
  }
  return nullptr;
}

void AnswerReader::Rest(bool whole, Delta* delta) {
  delta->reasoning += thought_halves_.Rest();
  delta->text += text_halves_.Rest();
  for (size_t i = 0; i < calls_.size(); ++i) {
    std::string rest = calls_[i].halves.Rest();
    if (rest.empty() && whole && !calls_[i].any) rest = "{}";  // It has none.
    if (rest.empty()) continue;
    delta->tool_calls.push_back({static_cast<int32_t>(i), "", "", std::move(rest)});
  }
}

}  // namespace ropeway::api::wire
