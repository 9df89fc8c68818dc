// Handlers of routes that answer at once (models, the queue, health, metrics, version, the admin
// paths), and what the handlers of all routes share.
#ifndef ROPEWAY_SERVER_HANDLERS_H_
#define ROPEWAY_SERVER_HANDLERS_H_

#include <string>

#include "server/access.h"
#include "server/http_reply.h"
#include "server/router.h"
#include "server/server_context.h"

namespace ropeway::server {

// Answers all routes but kGenerate, kTokenize and kDetokenize; 404 for unknown ones. Never blocks
// for long. REQUIRES: the caller may use the route (Access::Check).
HttpReply AnswerPlain(const RouteMatch& match, const Caller& caller, ServerContext* context);

// The model that a request's `model` names: the first one for "" and "default". kNotFound for a
// name that no model has.
StatusOr<engine::ModelInfo> FindModel(const std::string& name, const engine::Backend& backend);

// Likewise for a request, which may name a model that the backend has not listed yet.
StatusOr<engine::ModelInfo> ModelToAsk(const std::string& name, const engine::Backend& backend);

// The reply to a tenant's request that failed with `status`, with the headers that say whether and
// when to retry. REQUIRES: !status.ok().
HttpReply RejectionReply(const Status& status, const engine::Backend& backend,
                         const std::string& tenant);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_HANDLERS_H_
