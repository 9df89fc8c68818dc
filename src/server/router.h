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
  kLivez,
  kReadyz,
  kHealth,
  kMetrics,
  kUnknown,
};

struct RouteMatch {
  Route route = Route::kUnknown;
  bool method_allowed = false;
  std::string_view allow;     // For the Allow header of a 405; empty where the path is unknown.
  std::string_view argument;  // The model's name for kModel; points into the target.
};

// `target` as in the request line; a query is ignored.
RouteMatch MatchRoute(std::string_view method, std::string_view target);

// The path as metrics and log lines name it; "other" for unknown ones, so that clients cannot make
// new label values.
std::string_view RouteName(Route route);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_ROUTER_H_
