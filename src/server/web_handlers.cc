// The page: /, /chat and /web/{file}.
#include <algorithm>
#include <string>
#include <string_view>

#include "server/handlers.h"
#include "server/web_files.h"

namespace ropeway::server {
namespace {

// Nothing from elsewhere, nothing inline, no frames: what a model or a client wrote could run
// nothing even where a script showed it as HTML.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Whether If-None-Match names the file. A weak tag counts, as RFC 9110, section 13.1.2 has it.
bool Names(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

http::HttpReply FileReply(const http::HttpRequest& request, std::string_view name,
                          ServerContext* context) {
  const auto files = WebFiles();
  const auto file = std::ranges::find(files, name, &WebFile::name);
  if (!context->web || file == files.end()) return AnswerNothing(request, context);
  http::HttpReply reply;
  // Asked for again each time: a new version of the program has a new page.
  reply.headers = {{"Cache-Control", "no-cache"},
                   {"ETag", std::string(file->etag)},
                   {"Content-Security-Policy", kPolicy},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (Names(request.if_none_match, file->etag)) {
    reply.status = 304;
    return reply;
  }
  reply.content_type = file->content_type;
  reply.body = file->bytes;
  return reply;
}

}  // namespace

http::HttpReply AnswerDashboard(const http::HttpRequest& request, ServerContext* context) {
  if (context->web) return FileReply(request, "index.html", context);
  // Some clients ask HEAD / whether there is a server.
  if (request.framing.head) return {};
  return http::ErrorReply({404, "There is no page here: this server was started with --no-web.",
                           "invalid_request_error", "", ""});
}

http::HttpReply AnswerChat(const http::HttpRequest& request, ServerContext* context) {
  return FileReply(request, "chat.html", context);
}

http::HttpReply AnswerWebFile(const http::HttpRequest& request, ServerContext* context) {
  return FileReply(request, request.match.arguments.front(), context);
}

}  // namespace ropeway::server
