// Which handler answers a method and a path.
#ifndef ROPEWAY_SERVER_ROUTER_H_
#define ROPEWAY_SERVER_ROUTER_H_

#include <string_view>

namespace ropeway {

enum class Route {
  kCompletions,
  kChatCompletions,
  kModels,  // The list.
  kModel,   // One model by its name.
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

struct RouteMatch {
  Route route = Route::kUnknown;
  bool method_allowed = false;
  std::string_view allow;  // For the Allow header of a 405; empty where the path is unknown.
  // The model's name for kModel, the request's number for kAdminCancel; points into the target.
  std::string_view argument;
};

// `target` as in the request line: a path, or a whole URL whose host does not matter (RFC 9112,
// section 3.2.2). A query is ignored.
RouteMatch MatchRoute(std::string_view method, std::string_view target);

// The path as metrics and log lines name it; "other" for unknown ones, so that clients cannot make
// new label values.
std::string_view RouteName(Route route);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_ROUTER_H_
