#include "http/request_reader.h"

#include <chrono>
#include <utility>

#include "http/cross_origin.h"
#include "http/request_parser.h"

namespace ropeway::http {
namespace {

namespace asio = boost::asio;

HttpReply TooManyBodies() {
  HttpReply reply = ErrorReply({503, "The server is receiving too many large requests.",
                                "service_unavailable_error", "", "unavailable"});
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply WrongHost() {
  return ErrorReply(
      {403,
       "This server has no API keys and accepts only requests for localhost or 127.0.0.1: use one "
       "of them, or start it with --allowed-hosts and the name that you use.",
       "invalid_request_error", "", "host_not_allowed"});
}

HttpReply WrongOrigin() {
  return ErrorReply(
      {403,
       "This server has no API keys and rejects requests from pages of other origins: start it "
       "with --cors-origins and the origin of your page. Files and sandboxed pages have no "
       "origin: serve them over HTTP.",
       "invalid_request_error", "", "origin_not_allowed"});
}

HttpReply TooSlow() {
  return ErrorReply({408, "The request did not arrive in time.", "invalid_request_error", "", ""});
}

// The route in metrics of requests whose head could not be read.
constexpr std::string_view kUnreadRoute = "refused";

}  // namespace

// One request being read.
class RequestReader {
 public:
  RequestReader(SocketStream* stream, HttpContext* context, ConnectionTable::Place* place,
                bool proxied)
      : stream_(stream),
        context_(context),
        place_(place),
        proxied_(proxied),
        limits_(context->limits),
        parser_(context->limits) {
    request_.match.route = &context->routes.nothing();
    request_.match.name = kUnreadRoute;
    request_.framing.keep_alive = false;
  }

  asio::awaitable<ReadOutcome> Read();

 private:
  void Parse();
  // Finds the route, and what the page that asks may read of any answer.
  void FindRoute();
  // Decides, by the head, whether the body is to be read.
  std::optional<HttpReply> CheckHead();
  // Where the server is open to its machine alone, no page of another site must reach it: neither
  // by giving it a name (DNS rebinding) nor by sending what needs no preflight.
  std::optional<HttpReply> CheckPage(const RequestHead& head) const;
  // Whether the connection may have this request answered.
  std::optional<HttpReply> CheckPlace();
  // Charges the body for what it takes by now.
  std::optional<HttpReply> ChargeBody();
  // The request is here as a whole.
  void Complete();

  SocketStream* const stream_;
  HttpContext* const context_;
  ConnectionTable::Place* const place_;
  const bool proxied_;
  const HttpLimits& limits_;
  RequestParser parser_;
  ReadOutcome outcome_;
  HttpRequest& request_ = outcome_.request;
  base::SharedBudget::Hold hold_;
};

void RequestReader::Parse() {
  stream_->Consume(parser_.Parse(stream_->received(), stream_->full()));
  outcome_.rejection = parser_.rejection();
}

void RequestReader::FindRoute() {
  const RequestHead& head = parser_.head();
  request_.method = head.method;
  request_.match = context_->routes.Match(head.method, head.target);
  if (!request_.match.route->limits.cross_origin) return;
  request_.allow_origin = context_->origins.Answer(head.origin, context_->on_loopback);
  request_.preflight = head.preflight && !request_.allow_origin.empty();
  if (request_.preflight) request_.allow_headers = AllowedHeaders(head.asked_headers);
}

std::optional<HttpReply> RequestReader::CheckHead() {
  const RequestHead& head = parser_.head();
  if (proxied_) {
    const auto client = context_->proxies.ClientOf(head.forwarded_for, head.forwarded);
    if (client) request_.forwarded_for = client->to_string();
    if (client) request_.client = AddressAccount(*client);
  }
  const Route& route = *request_.match.route;
  if (std::optional<HttpReply> rejection = CheckPage(head)) {
    request_.allow_origin.clear();
    return rejection;
  }
  // What methods a path takes is no secret, and browsers ask for it without a key.
  const Rights rights = request_.match.options ? Rights::kOpen : route.rights;
  Verdict verdict = context_->application->Check(rights, head);
  if (verdict.rejection) return std::move(verdict.rejection);
  request_.caller = std::move(verdict.caller);
  if (!request_.match.method_allowed || !route.limits.takes_body) parser_.DropBody();
  return CheckPlace();
}

std::optional<HttpReply> RequestReader::CheckPage(const RequestHead& head) const {
  if (!context_->open || !context_->on_loopback) return std::nullopt;
  const HostRule& hosts = context_->hosts;
  if (!hosts.Allows(head.host) || !hosts.Allows(AuthorityOf(head.target))) return WrongHost();
  // A frame or a link of another page says no origin.
  const RouteLimits& limits = request_.match.route->limits;
  const bool foreign = head.fetch_site == "cross-site" || head.fetch_site == "same-site";
  if (foreign && !limits.cross_origin && !limits.page) return WrongOrigin();
  // OPTIONS is answered to all: without CORS headers the browser sends nothing further.
  const bool good = head.origin.empty() || request_.match.options ||
                    IsOwnOrigin(head.origin, head.host) ||
                    !context_->origins.Answer(head.origin, true).empty();
  return good ? std::nullopt : std::optional(WrongOrigin());
}

std::optional<HttpReply> RequestReader::CheckPlace() {
  const Caller& caller = request_.caller;
  const bool is_probe = request_.match.route->limits.probe || caller.admin;
  bool has_place = is_probe || !place_->probe_only();
  // Strangers are protected once their request is here as a whole.
  if (has_place && !caller.tenant.empty()) has_place = place_->Protect(caller.tenant);
  if (has_place) return std::nullopt;
  context_->metrics.CountRejectedConnection();
  return TooManyConnections();
}

std::optional<HttpReply> RequestReader::ChargeBody() {
  // Small bodies are not counted: a few clients that send large ones slowly cannot block them.
  const size_t bytes = parser_.body_bytes();
  if (bytes <= limits_.max_inline_body_bytes) return std::nullopt;
  const auto amount = static_cast<int64_t>(bytes);
  // What is held stays held, also when others have left less for its tenant since.
  if (amount <= hold_.amount()) return std::nullopt;
  const bool fits = hold_.taken() ? hold_.Grow(amount - hold_.amount())
                                  : context_->bodies.Take(request_.caller.tenant, amount, &hold_);
  if (!fits) return TooManyBodies();
  return std::nullopt;
}

void RequestReader::Complete() {
  const RequestHead& head = parser_.head();
  request_.framing = head.framing;
  request_.if_none_match = head.if_none_match;
  if (place_->probe_only()) request_.framing.keep_alive = false;
  request_.body = parser_.TakeBody();
  request_.body_hold = std::move(hold_);
  outcome_.whole = true;
}

asio::awaitable<ReadOutcome> RequestReader::Read() {
  auto deadline = std::chrono::steady_clock::now() + limits_.header_timeout;
  bool head_seen = false;
  while (true) {
    Parse();
    if (!head_seen && parser_.head_done()) {
      head_seen = true;
      deadline = std::chrono::steady_clock::now() + limits_.body_timeout;
      request_.framing = parser_.head().framing;
      request_.framing.keep_alive = false;
      if (!parser_.head().method.empty()) FindRoute();
      if (!outcome_.rejection) outcome_.rejection = CheckHead();
      if (outcome_.rejection) break;
      if (!parser_.done()) {
        bool sent = true;
        if (parser_.head().expects_continue && stream_->received().empty()) {
          std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
          sent = co_await stream_->Write(std::move(go_on));
        }
        if (!sent) break;
        continue;  // A part of the body may be there.
      }
    }
    if (!outcome_.rejection) outcome_.rejection = ChargeBody();
    if (outcome_.rejection) break;
    if (parser_.done()) {
      Complete();
      break;
    }
    if (stream_->gone()) break;
    const bool in_time = co_await stream_->Wait(deadline);
    if (!in_time) {
      outcome_.rejection = TooSlow();
      break;
    }
  }
  co_return std::move(outcome_);
}

HttpReply TooManyConnections() {
  HttpReply reply = ErrorReply({503, "The server has too many connections.",
                                "service_unavailable_error", "", "unavailable"});
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, HttpContext* context,
                                             ConnectionTable::Place* place, bool proxied) {
  RequestReader reader(stream, context, place, proxied);
  ReadOutcome outcome = co_await reader.Read();
  co_return outcome;
}

}  // namespace ropeway::http
