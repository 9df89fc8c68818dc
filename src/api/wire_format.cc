#include "api/wire_format.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "api/wire_json.h"

namespace ropeway::api {
namespace {

constexpr std::pair<BackendKind, std::string_view> kKindNames[] = {
    {BackendKind::kOpenAi, "openai"},
    {BackendKind::kLlamaCpp, "llamacpp"},
    {BackendKind::kOllama, "ollama"},
    {BackendKind::kRopeway, "ropeway"},
};

StatusCode HttpCodeOf(BackendFailure::Kind kind, int http_status) {
  if (kind == BackendFailure::Kind::kRejected) return StatusCode::kInvalidArgument;
  return http_status == 429 ? StatusCode::kResourceExhausted : StatusCode::kUnavailable;
}

}  // namespace

const char* BackendKindName(BackendKind kind) {
  for (const auto& [known, name] : kKindNames) {
    if (known == kind) return name.data();
  }
  return "";
}

std::optional<BackendKind> BackendKindOf(std::string_view name) {
  for (const auto& [kind, known] : kKindNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::unique_ptr<WireFormat> MakeWireFormat(BackendKind kind, ServerModel model) {
  switch (kind) {
    case BackendKind::kOpenAi:
      return wire::MakeOpenAi(std::move(model));
    case BackendKind::kLlamaCpp:
      return wire::MakeLlamaCpp(std::move(model));
    case BackendKind::kOllama:
      return wire::MakeOllama(std::move(model));
    case BackendKind::kRopeway:
      return wire::MakeRopeway(std::move(model));
  }
  return nullptr;
}

// A key, a path or a model name that the server does not accept is the gateway's, not the client's:
// another backend may do better, and this one is not well.
BackendFailure::Kind FailureKindOf(int http_status) {
  switch (http_status) {
    case 429:
    case 503:
      return BackendFailure::Kind::kBusy;
    case 400:
    case 413:
    case 414:
    case 415:
    case 422:
    case 431:
      return BackendFailure::Kind::kRejected;
    default:
      return BackendFailure::Kind::kBroken;
  }
}

BackendFailure HttpFailure(int http_status, std::string_view body) {
  BackendFailure failure;
  failure.kind = FailureKindOf(http_status);
  const StatusCode code = HttpCodeOf(failure.kind, http_status);
  if (http_status == 401) {
    // Servers quote the key that they do not accept.
    failure.status = Status(code, "it does not accept the gateway's API key (HTTP 401)");
    return failure;
  }
  const StatusOr<nlohmann::json> document = wire::ReadDocument(body, "it");
  std::string said = document.ok() ? wire::ErrorText(*document) : std::string();
  // Pages of proxies say nothing to a client.
  if (said.empty() && !body.starts_with('<')) said = body;
  std::string message = fmt::format("it answered with HTTP {}", http_status);
  if (!said.empty()) message += ": " + said;
  failure.status = Status(code, std::move(message));
  if (failure.kind == BackendFailure::Kind::kRejected && document.ok()) {
    failure.status = wire::WithParam(failure.status, *document);
  }
  return failure;
}

}  // namespace ropeway::api
