// A request under way in an engine: one object per accepted request, shared by its threads.
#ifndef ROPEWAY_ENGINE_LIVE_REQUEST_H_
#define ROPEWAY_ENGINE_LIVE_REQUEST_H_

#include <cstdint>
#include <memory>

#include "answer/answer_parser.h"
#include "core/sequence.h"
#include "service/active_request.h"
#include "service/registry.h"

namespace ropeway::engine {

struct GrammarText;
class RequestOutput;

// While it is kEncoding the request is with the prompt pool. Of a cancel and the hand-over to the
// engine thread exactly one leaves kEncoding. From then on the engine thread moves the request
// between waiting, running and preempted (without a token since it was preempted), and the output
// thread ends it, and calls its sink.
struct LiveRequest final : core::RequestContext, service::ActiveRequest {
  using ActiveRequest::ActiveRequest;

  // Set before the request is shared: of the request that it is a part of; or null.
  std::shared_ptr<core::AdmissionGroup> group;
  // Set before the request is shared: the grammar of its format; null: any text.
  std::shared_ptr<const GrammarText> grammar;
  // The compiled grammar. Set before its prompt is encoded; null: any text.
  std::shared_ptr<const core::Constraint> constraint;
  // Reads the answer to a chat; null: the answer is text. Set by the prompt pool, then the output
  // thread's.
  std::unique_ptr<answer::AnswerParser> parser;
  int32_t lowered_max_tokens = 0;  // See Finish::max_tokens. Set by the prompt pool.
  // The output thread's; null: not admitted, or ended. A shared_ptr frees it without its type,
  // which stands above this one.
  std::shared_ptr<RequestOutput> output;
};

using LiveRequests = service::Registry<LiveRequest>;

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_LIVE_REQUEST_H_
