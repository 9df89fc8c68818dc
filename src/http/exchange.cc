#include "http/exchange.h"

#include <utility>

namespace ropeway::http {
namespace {

constexpr char kMaxAge[] = "600";  // Seconds; Chromium takes two hours at most.

bool IsForPages(std::string_view name) {
  return name.starts_with("x-") || name.starts_with("X-") || name == "Retry-After" ||
         name == "request-id";
}

}  // namespace

void Exchange::AddCrossOrigin(HttpHeaders* all) const {
  if (!route().limits.cross_origin || !context_->origins.varies(context_->on_loopback)) return;
  std::string exposed = request.framing.request_id.empty() ? "" : "x-request-id";
  for (const auto& [name, value] : *all) {
    if (IsForPages(name)) exposed += (exposed.empty() ? "" : ", ") + name;
  }
  all->emplace_back("Vary", "Origin");
  if (request.allow_origin.empty()) return;
  all->emplace_back("Access-Control-Allow-Origin", request.allow_origin);
  if (!exposed.empty()) all->emplace_back("Access-Control-Expose-Headers", std::move(exposed));
  if (!request.preflight) return;
  all->emplace_back("Access-Control-Allow-Methods", request.match.methods);
  if (!request.allow_headers.empty()) {
    all->emplace_back("Access-Control-Allow-Headers", request.allow_headers);
  }
  all->emplace_back("Access-Control-Max-Age", kMaxAge);
}

std::string Exchange::StreamHead(std::string_view content_type, HttpHeaders own) const {
  own.insert(own.end(), headers.begin(), headers.end());
  AddCrossOrigin(&own);
  return http::StreamHead(content_type, request.framing, own);
}

boost::asio::awaitable<Sent> Exchange::Send(HttpReply reply) {
  const std::string& tenant = request.caller.tenant;
  base::SharedBudget::Hold hold;
  if (!context_->ChargeAnswer(tenant, reply.body.capacity(), &hold)) {
    reply = context_->application->Rejection(TooManyAnswers(), tenant);
  }
  if (reply.error) {
    Note(*reply.error);
    reply.error->request_id = request.framing.request_id;
    reply.body = route().write_error ? route().write_error(*reply.error)
                                     : context_->application->ErrorBody(*reply.error);
  }
  reply.headers.insert(reply.headers.end(), headers.begin(), headers.end());
  AddCrossOrigin(&reply.headers);
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
