// What a sender's API key makes of its request, and whether it may begin now.
#ifndef ROPEWAY_SERVER_KEY_RIGHTS_H_
#define ROPEWAY_SERVER_KEY_RIGHTS_H_

#include <optional>
#include <vector>

#include "server/caller.h"
#include "server/http_reply.h"
#include "server/key_limits.h"
#include "server/openai_request.h"
#include "server/server_context.h"

namespace ropeway {

// Gives `api->request` the tenant, scope, class and weight of its sender, and `*tickets` one ticket
// a choice. A refusal where the request asks for a class above the key's ceiling (403) or the key's
// limits are used up (429).
std::optional<HttpReply> ApplyKey(const Caller& caller, ServerContext* context, ApiRequest* api,
                                  std::vector<KeyTicket>* tickets);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_KEY_RIGHTS_H_
