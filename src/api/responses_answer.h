// What the answer to POST /v1/responses is made of: items of output, and the response around them.
#ifndef ROPEWAY_API_RESPONSES_ANSWER_H_
#define ROPEWAY_API_RESPONSES_ANSWER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/responses_request.h"

namespace ropeway::api {

// An item of output. Its id is a function of the response's: "msg_<hex>", "rs_<hex>", and of calls
// "fc_<hex>_<index>"; a second message or thought, which follows a call, is "msg_<hex>_1".
struct OutputItem {
  SaidPart::Kind kind = SaidPart::Kind::kText;
  std::string id;
  std::string_view text = {};      // Of messages and thoughts.
  const ToolCall* call = nullptr;  // Of calls.
  std::string logprobs = "[]";     // Of messages, as JSON.
  const char* status = "completed";
};

// The only part of the content of a message or a thought, as JSON.
std::string ContentPartJson(const OutputItem& item);
std::string ItemJson(const OutputItem& item);
// The item as it is when it has just begun: nothing of it was said.
std::string BegunItemJson(const OutputItem& item);

// Log-probabilities of `count` tokens, as far as there are so many, as a JSON list.
std::string LogprobsJson(const std::vector<OutputToken>& tokens, size_t begin, size_t count);

// Which item a part of an answer is. Knows those before it.
class OutputIds {
 public:
  explicit OutputIds(std::string hex) : hex_(std::move(hex)) {}
  std::string Next(SaidPart::Kind kind);

 private:
  const std::string hex_;
  int texts_ = 0;
  int thoughts_ = 0;
  int calls_ = 0;
};

// The items of an answer, which must outlive them. One in which nothing was said has a message
// without text. `logprobs`: they are shown.
std::vector<OutputItem> ItemsOf(const ChoiceOutput& output, const std::string& hex, bool logprobs);

// Whether what was called last is whole.
bool IsWholeCall(const ToolCall& call);

// Members of a response beside those that it always has.
struct ResponseParts {
  AnswerState state = AnswerState::kCompleted;
  std::string_view output = "[]";   // As JSON.
  const Finish* finish = nullptr;   // Null: it has not ended by itself.
  const ApiError* error = nullptr;  // Why it failed; null: it has not.
};

// The response as JSON text.
std::string ResponseJson(const ResponsesBody& body, const AnswerHead& head,
                         const ResponseParts& parts);

// An error of a chat, with its fields as this dialect calls them.
ApiError InResponses(ApiError error);

// A list of items as JSON text.
std::string JoinItems(const std::vector<OutputItem>& items);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_RESPONSES_ANSWER_H_
