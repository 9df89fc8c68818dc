#include "http/exchange.h"

#include <utility>

namespace ropeway::http {

boost::asio::awaitable<Sent> Exchange::Send(HttpReply reply) {
  const std::string& tenant = request.caller.tenant;
  base::SharedBudget::Hold hold;
  if (!context_->ChargeAnswer(tenant, reply.body.capacity(), &hold)) {
    reply = context_->application->Rejection(TooManyAnswers(), tenant);
  }
  if (reply.error) {
    Note(*reply.error);
    reply.body = route().write_error ? route().write_error(*reply.error)
                                     : context_->application->ErrorBody(*reply.error);
  }
  const Framing framing = request.framing;
  std::string head = SerializeHead(reply, framing);
  if (framing.head) reply.body.clear();
  const bool written = co_await stream->Write(std::move(head), std::move(reply.body));
  Sent sent;
  if (written) sent.status = reply.status;
  sent.keep_alive = written && framing.keep_alive;
  co_return sent;
}

void Exchange::Note(const HttpError& error) {
  record.code = error.code.empty() ? error.type : error.code;
  record.field = error.param;
}

}  // namespace ropeway::http
