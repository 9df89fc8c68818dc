// The stream of POST /v1/responses: typed events with numbers.
#ifndef ROPEWAY_API_RESPONSES_STREAM_H_
#define ROPEWAY_API_RESPONSES_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/responses_answer.h"
#include "api/responses_request.h"

namespace ropeway::api {

// Events and their numbers are a function of the head, the body and the sequence of deltas, however
// these arrive; only the last event, which has the usage and the times, is of the end as well. A
// client that comes back finds the same numbers as long as the deltas are the same. They are:
// RequestOutput::AddToken (engine/) makes one delta of each token, and one at the end of what was
// held back; no queue between it and a stream joins two (StreamSink keeps each; CollectorSink,
// which joins them, is of whole answers). Behind a gateway a delta is one event of a backend, which
// may have several tokens, and the cuts may differ from run to run: there a stored answer is to be
// replayed by the deltas that were recorded, and goes on behind them. A delta that says nothing has
// no event.
//
// Items of output follow each other: one is done when the next begins.
class ResponsesStream {
 public:
  // Both must outlive it.
  ResponsesStream(const ResponsesBody* body, const AnswerHead* head, std::string hex);

  void StartAfter(int64_t sequence_number) { after_ = sequence_number; }

  std::string Begin();
  std::string OnDelta(Delta delta);
  std::string OnEnd(const Finish& finish);
  // What ends a stream that fails, or is cancelled (kAnswerCancelled). `error` as InResponses.
  std::string Failure(const ApiError& error) const;

 private:
  // One event, or "" where the client has it. `members`: each behind a comma.
  std::string Event(std::string_view type, std::string_view members);
  std::string EventAt(int64_t number, std::string_view type, std::string_view members) const;
  // An event about the open item; `members` are those behind the item's id and index.
  std::string ItemEvent(std::string_view type, std::string_view members);
  // An event with the response as a whole.
  std::string ResponseEvent(std::string_view type, const ResponseParts& parts);

  // Begins an item and ends the one before it. `call`: of a call.
  std::string Open(SaidPart::Kind kind, const ToolCall* call);
  // Ends the open item as this.
  std::string Close(const OutputItem& item);
  // The open item, as it is once no more is said of it.
  OutputItem OpenItem() const;
  std::string ShowText(SaidPart::Kind kind, std::string_view text);
  std::string ShowCall(const ToolCallDelta& call);
  // Keeps a delta, and of its tokens what an event is to show.
  void Keep(const Delta& delta);
  bool logprobs() const { return body_->request.logprobs.has_value(); }

  const ResponsesBody* const body_;
  const AnswerHead* const head_;
  const std::string hex_;
  OutputIds ids_;
  int64_t next_ = 0;    // The number of the next event.
  int64_t after_ = -1;  // The client has the events up to this one.

  ChoiceOutput said_;                            // Each of its parts is an item.
  int index_ = -1;                               // The open item's among them; -1: there is none.
  SaidPart::Kind kind_ = SaidPart::Kind::kText;  // The open item's.
  std::string id_;                               // The open item's.
  size_t text_begin_[2] = {0,
                           0};  // Where the open item's, or the next one's, begins: thoughts, text.
  size_t token_begin_ = 0;
  std::vector<OutputToken> unshown_;  // Tokens of the text for the next event that has some.
  size_t kept_logprobs_ = 0;          // About the values in the tokens of `said_`.
  bool drops_logprobs_ = false;       // There were too many of them.
};

}  // namespace ropeway::api

#endif  // ROPEWAY_API_RESPONSES_STREAM_H_
