// Maps methods and paths to routes.
#ifndef ROPEWAY_SERVER_ROUTER_H_
#define ROPEWAY_SERVER_ROUTER_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"

namespace ropeway::server {

enum class Route {
  kGenerate,  // In the dialect RouteMatch::make_format.
  kModels,    // The list.
  kModel,     // One model by its name.
  kQueue,
  kTokenize,
  kDetokenize,
  kVersion,
  kLivez,
  kReadyz,
  kHealth,
  kMetrics,
  kAdminRequests,  // The list.
  kAdminCancel,    // One request by its number.
  kAdminDrain,
  kUnknown,
};

// The routes that tell how the server is. They need no key, and are answered whatever the load.
inline bool IsHealth(Route route) {
  return route == Route::kLivez || route == Route::kReadyz || route == Route::kHealth;
}

// A path that generates, and its dialect.
struct ApiEndpoint {
  std::string path;
  api::ApiFormatMaker make_format;
};

// The endpoints of `ropeway serve`.
std::vector<ApiEndpoint> GenerationEndpoints();

struct RouteMatch {
  Route route = Route::kUnknown;
  // The path as metrics and log lines name it; "other" for unknown paths, so that clients cannot
  // make new label values. Valid as long as the router.
  std::string_view name = "other";
  bool method_allowed = false;
  std::string_view allow;  // For the Allow header of a 405; empty where the path is unknown.
  // The model's name for kModel, the request's number for kAdminCancel; points into the target.
  std::string_view argument;
  api::ApiFormatMaker make_format = nullptr;  // Of kGenerate.
};

// Immutable, so thread-safe.
class Router {
 public:
  explicit Router(std::vector<ApiEndpoint> endpoints = GenerationEndpoints())
      : endpoints_(std::move(endpoints)) {}

  // `target` as in the request line: a path, or a whole URL whose host does not matter (RFC 9112,
  // section 3.2.2). A query is ignored.
  RouteMatch Match(std::string_view method, std::string_view target) const;

 private:
  const std::vector<ApiEndpoint> endpoints_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ROUTER_H_
