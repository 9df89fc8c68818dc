#include "server/router.h"

#include "api/openai_format.h"

namespace ropeway::server {
namespace {

struct Entry {
  std::string_view path;
  Route route;
  bool post;
};

constexpr Entry kEntries[] = {
    {"/v1/models", Route::kModels, false},      {"/v1/queue", Route::kQueue, false},
    {"/tokenize", Route::kTokenize, true},      {"/detokenize", Route::kDetokenize, true},
    {"/version", Route::kVersion, false},       {"/livez", Route::kLivez, false},
    {"/readyz", Route::kReadyz, false},         {"/health", Route::kHealth, false},
    {"/metrics", Route::kMetrics, false},       {"/admin/requests", Route::kAdminRequests, false},
    {"/admin/drain", Route::kAdminDrain, true},
};

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kAdminRequestPrefix = "/admin/requests/";
constexpr std::string_view kCancelEnding = "/cancel";

bool IsSchemeChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '-' || c == '.';
}

// The path of `target` without its query.
std::string_view PathOf(std::string_view target) {
  target = target.substr(0, target.find('?'));
  const size_t colon = target.find("://");
  if (target.starts_with('/') || colon == std::string_view::npos || colon == 0) return target;
  for (char c : target.substr(0, colon)) {
    if (!IsSchemeChar(c)) return target;
  }
  target.remove_prefix(colon + 3);
  const size_t slash = target.find('/');
  return slash == std::string_view::npos ? "/" : target.substr(slash);
}

RouteMatch MakeMatch(Route route, std::string_view name, bool post, std::string_view method) {
  RouteMatch match;
  match.route = route;
  match.name = name;
  match.method_allowed = post ? method == "POST" : (method == "GET" || method == "HEAD");
  match.allow = post ? "POST" : "GET, HEAD";
  return match;
}

}  // namespace

std::vector<ApiEndpoint> GenerationEndpoints() {
  return {{"/v1/completions", api::MakeOpenAiCompletions},
          {"/v1/chat/completions", api::MakeOpenAiChat}};
}

RouteMatch Router::Match(std::string_view method, std::string_view target) const {
  const std::string_view path = PathOf(target);
  for (const ApiEndpoint& endpoint : endpoints_) {
    if (path != endpoint.path) continue;
    RouteMatch match = MakeMatch(Route::kGenerate, endpoint.path, true, method);
    match.make_format = endpoint.make_format;
    return match;
  }
  for (const Entry& entry : kEntries) {
    if (path == entry.path) return MakeMatch(entry.route, entry.path, entry.post, method);
  }
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    RouteMatch match = MakeMatch(Route::kModel, "/v1/models/{model}", false, method);
    match.argument = path.substr(kModelPrefix.size());
    return match;
  }
  if (path.starts_with(kAdminRequestPrefix) && path.ends_with(kCancelEnding) &&
      path.size() > kAdminRequestPrefix.size() + kCancelEnding.size()) {
    RouteMatch match = MakeMatch(Route::kAdminCancel, "/admin/requests/{id}/cancel", true, method);
    match.argument = path.substr(kAdminRequestPrefix.size(),
                                 path.size() - kAdminRequestPrefix.size() - kCancelEnding.size());
    return match;
  }
  return {};
}

}  // namespace ropeway::server
