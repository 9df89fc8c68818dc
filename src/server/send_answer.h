// Sends what the backend makes of a request, whole or as a stream.
#ifndef ROPEWAY_SERVER_SEND_ANSWER_H_
#define ROPEWAY_SERVER_SEND_ANSWER_H_

#include <boost/asio/awaitable.hpp>

#include "server/generation.h"
#include "server/http_reply.h"
#include "server/openai_response.h"
#include "server/server_context.h"
#include "server/socket_stream.h"
#include "server/submission.h"

namespace ropeway {

// Waits for all choices and sends them as one JSON object, or the first failure as an error.
boost::asio::awaitable<Sent> SendWhole(SocketStream* stream, ServerContext* context,
                                       Submission* submission, const AnswerHead& head,
                                       Framing framing);

// Sends server-sent events, the headers as soon as all choices are admitted; a refusal, or a
// failure before the headers leave, is an error with its own status code. `*began` is set before
// they do.
boost::asio::awaitable<Sent> SendStream(SocketStream* stream, ServerContext* context,
                                        Submission* submission, const AnswerHead& head,
                                        Framing framing, bool* began);

boost::asio::awaitable<Sent> SendReply(SocketStream* stream, HttpReply reply, Framing framing);

// The reply to a request that failed with `status`. REQUIRES: !status.ok().
HttpReply RefusalFor(const Status& status, const Backend& backend);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SEND_ANSWER_H_
