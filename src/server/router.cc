#include "server/router.h"

namespace ropeway {
namespace {

struct Entry {
  std::string_view path;
  Route route;
  bool post;
};

constexpr Entry kEntries[] = {
    {"/v1/completions", Route::kCompletions, true},
    {"/v1/chat/completions", Route::kChatCompletions, true},
    {"/v1/models", Route::kModels, false},
    {"/livez", Route::kLivez, false},
    {"/readyz", Route::kReadyz, false},
    {"/health", Route::kHealth, false},
    {"/metrics", Route::kMetrics, false},
};

RouteMatch Match(Route route, bool post, std::string_view method) {
  RouteMatch match;
  match.route = route;
  match.method_allowed = post ? method == "POST" : (method == "GET" || method == "HEAD");
  match.allow = post ? "POST" : "GET, HEAD";
  return match;
}

}  // namespace

RouteMatch MatchRoute(std::string_view method, std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  for (const Entry& entry : kEntries) {
    if (path == entry.path) return Match(entry.route, entry.post, method);
  }
  constexpr std::string_view kModelPrefix = "/v1/models/";
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    RouteMatch match = Match(Route::kModel, false, method);
    match.argument = path.substr(kModelPrefix.size());
    return match;
  }
  return {};
}

std::string_view RouteName(Route route) {
  for (const Entry& entry : kEntries) {
    if (entry.route == route) return entry.path;
  }
  return route == Route::kModel ? "/v1/models/{model}" : "other";
}

}  // namespace ropeway
