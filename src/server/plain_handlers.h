// The routes whose answer is at hand: models, the queue, health, metrics, version and the admin
// paths.
#ifndef ROPEWAY_SERVER_PLAIN_HANDLERS_H_
#define ROPEWAY_SERVER_PLAIN_HANDLERS_H_

#include <string>

#include "server/caller.h"
#include "server/http_reply.h"
#include "server/router.h"
#include "server/server_context.h"

namespace ropeway {

// REQUIRES: match.route is none of the generation routes. Never blocks for long.
HttpReply AnswerPlain(const RouteMatch& match, const Caller& caller, ServerContext* context);

// The served name that a request's `model` means: the first model's for "" and "default".
// kNotFound for a name that no model has.
StatusOr<ModelInfo> FindModel(const std::string& name, const Backend& backend);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_PLAIN_HANDLERS_H_
