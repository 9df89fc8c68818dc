#include "server/key_rights.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/send_answer.h"

namespace ropeway {
namespace {

HttpReply AboveCeiling(const ApiRequest& api, Priority ceiling) {
  const std::string message =
      fmt::format("'{}' asks for the class {}, but this API key may ask for {} at most.",
                  api.priority_field, PriorityName(*api.priority), PriorityName(ceiling));
  return ErrorReply({403, message, "invalid_request_error", api.priority_field, "forbidden"});
}

HttpReply UsedUp(const KeyLimits::Admission& admission, const Caller& caller,
                 const ServerContext& context) {
  if (admission.status.code() != StatusCode::kResourceExhausted) {
    return RefusalFor(admission.status, *context.backend);
  }
  HttpReply reply =
      ErrorReply({429, admission.status.message(), admission.limit, "", "rate_limit_exceeded"});
  reply.headers = context.key_limits.Headers(caller.tenant);
  const int seconds = admission.retry_after_seconds > 0 ? admission.retry_after_seconds
                                                        : context.backend->RetryAfterSeconds();
  reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  return reply;
}

}  // namespace

std::optional<HttpReply> ApplyKey(const Caller& caller, ServerContext* context, ApiRequest* api,
                                  std::vector<KeyTicket>* tickets) {
  if (api->priority && *api->priority < caller.priority_ceiling) {
    return AboveCeiling(*api, caller.priority_ceiling);
  }
  Request& request = api->request;
  request.tenant = caller.tenant;
  request.cache_scope = caller.cache_scope;
  request.priority = api->priority.value_or(caller.priority);
  request.tenant_weight = caller.weight;
  KeyLimits::Admission admission =
      context->key_limits.Admit(caller.tenant, api->prompts.size(), static_cast<size_t>(api->n));
  if (!admission.status.ok()) return UsedUp(admission, caller, *context);
  *tickets = std::move(admission.tickets);
  return std::nullopt;
}

}  // namespace ropeway
