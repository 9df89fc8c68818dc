#include "server/exchange.h"

#include <utility>

#include "server/handlers.h"

namespace ropeway::server {

boost::asio::awaitable<Sent> Exchange::Send(HttpReply reply) {
  const std::string& tenant = request.caller.tenant;
  base::SharedBudget::Hold hold;
  if (!context_->ChargeAnswer(tenant, reply.body.capacity(), &hold)) {
    reply = RejectionReply(TooManyAnswers(), *context_->backend, tenant);
  }
  if (reply.error) Note(*reply.error);
  if (reply.error && route().write_error) reply.body = route().write_error(*reply.error);
  const Framing framing = request.framing;
  std::string head = SerializeHead(reply, framing);
  if (framing.head) reply.body.clear();
  const bool written = co_await stream->Write(std::move(head), std::move(reply.body));
  Sent sent;
  if (written) sent.status = reply.status;
  sent.keep_alive = written && framing.keep_alive;
  co_return sent;
}

void Exchange::Note(const api::ApiError& error) {
  record.code = error.code.empty() ? error.type : error.code;
  record.field = error.param;
}

}  // namespace ropeway::server
