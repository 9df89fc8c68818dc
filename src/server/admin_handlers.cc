#include "server/admin_handlers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

HttpReply JsonReply(const Json& body) {
  HttpReply reply;
  reply.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

HttpReply AnswerRequests(const Backend& backend) {
  Json list = Json::array();
  for (const RequestInfo& request : backend.Requests()) {
    list.push_back({{"id", request.id},
                    {"tenant", request.tenant},
                    {"priority", PriorityName(request.priority)},
                    {"started", request.started()},
                    {"age_seconds", request.age_seconds}});
  }
  return JsonReply({{"object", "list"}, {"data", std::move(list)}});
}

std::optional<RequestId> ParseId(std::string_view text) {
  RequestId id = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end) return std::nullopt;
  return id;
}

HttpReply AnswerCancel(std::string_view argument, Backend* backend) {
  const std::optional<RequestId> id = ParseId(argument);
  const std::vector<RequestInfo> all = id ? backend->Requests() : std::vector<RequestInfo>();
  const bool found = std::any_of(all.begin(), all.end(),
                                 [&](const RequestInfo& request) { return request.id == *id; });
  if (!found) {
    return ErrorReply({404, fmt::format("No request '{}' is under way.", argument.substr(0, 40)),
                       "invalid_request_error", "id", "request_not_found"});
  }
  backend->Cancel(*id);
  spdlog::info("Admin: request {} is cancelled", *id);
  return JsonReply({{"id", *id}, {"cancelled", true}});
}

HttpReply AnswerDrain(ServerContext* context) {
  const bool was_accepting = context->accepting.exchange(false);
  if (was_accepting) spdlog::info("Admin: no new requests are accepted");
  return JsonReply({{"draining", true}, {"requests", context->backend->Requests().size()}});
}

}  // namespace

HttpReply AnswerAdmin(const RouteMatch& match, ServerContext* context) {
  if (match.route == Route::kAdminRequests) return AnswerRequests(*context->backend);
  if (match.route == Route::kAdminCancel) return AnswerCancel(match.argument, context->backend);
  return AnswerDrain(context);
}

}  // namespace ropeway
