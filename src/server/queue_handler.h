// GET /v1/queue: who waits, and where a caller's own requests stand.
#ifndef ROPEWAY_SERVER_QUEUE_HANDLER_H_
#define ROPEWAY_SERVER_QUEUE_HANDLER_H_

#include "engine/backend.h"
#include "server/caller.h"
#include "server/http_reply.h"

namespace ropeway {

// All classes' numbers, and the requests of the caller's tenant; for an admin those of all, with
// their tenants. No prompts. Never blocks for long.
HttpReply AnswerQueue(const Caller& caller, const Backend& backend);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_QUEUE_HANDLER_H_
