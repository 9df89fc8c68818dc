// The answer to POST /v1/messages: the message, its blocks, and its stream.
#ifndef ROPEWAY_API_ANTHROPIC_ANSWER_H_
#define ROPEWAY_API_ANTHROPIC_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/anthropic_request.h"
#include "api/api_format.h"
#include "api/openai_format.h"

namespace ropeway::api::anthropic {

// The message as JSON text.
std::string MessageJson(const Body& body, const AnswerHead& head, const ChoiceOutput& output);

// {"type": "error", "error": {"type", "message"}} as JSON text. `error` as InAnthropic.
std::string ErrorJson(const ApiError& error);

// Events with names. Blocks follow each other: one stops when the next starts.
class Stream {
 public:
  // Both must outlive it.
  Stream(const Body* body, const AnswerHead* head) : body_(body), head_(head) {}

  // `prompt_tokens`: of those that come from the cache nothing is known yet.
  std::string Begin(int64_t prompt_tokens) const;
  std::string OnDelta(const Delta& delta);
  std::string OnEnd(const Finish& end);

 private:
  // Starts the block with this JSON, and stops the one before it.
  std::string Start(SaidPart::Kind kind, std::string_view block);
  // Stops the block that goes on, if there is one.
  std::string Stop();
  // An event about the block that goes on; `members` are those behind its index.
  std::string BlockEvent(std::string_view type, std::string_view members) const;
  // More of the block that goes on.
  std::string More(std::string_view type, std::string_view member, std::string_view text) const;
  std::string OnCall(const ToolCallDelta& call);

  const Body* const body_;
  const AnswerHead* const head_;
  int64_t index_ = -1;  // The last block's.
  bool open_ = false;   // It goes on.
  SaidPart::Kind kind_ = SaidPart::Kind::kText;
  int32_t call_ = -1;  // With kCall: which call it is.
  LastCall last_;
};

}  // namespace ropeway::api::anthropic

#endif  // ROPEWAY_API_ANTHROPIC_ANSWER_H_
