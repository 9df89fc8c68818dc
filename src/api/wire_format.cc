#include "api/wire_format.h"

#include <utility>

namespace ropeway::api {
namespace {

constexpr std::pair<BackendKind, std::string_view> kKindNames[] = {
    {BackendKind::kOpenAi, "openai"},
    {BackendKind::kLlamaCpp, "llamacpp"},
    {BackendKind::kOllama, "ollama"},
    {BackendKind::kRopeway, "ropeway"},
};

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

}  // namespace ropeway::api
