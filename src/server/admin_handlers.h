// What those who look after a server ask of it: which requests are under way, ending one of them,
// and taking no more.
#ifndef ROPEWAY_SERVER_ADMIN_HANDLERS_H_
#define ROPEWAY_SERVER_ADMIN_HANDLERS_H_

#include "server/http_reply.h"
#include "server/router.h"
#include "server/server_context.h"

namespace ropeway {

// REQUIRES: match.route is one of the admin routes, and the caller may use it. Never blocks for
// long.
HttpReply AnswerAdmin(const RouteMatch& match, ServerContext* context);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_ADMIN_HANDLERS_H_
