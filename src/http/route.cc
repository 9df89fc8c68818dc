#include "http/route.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/words.h"

namespace ropeway::http {
namespace {

constexpr std::string_view kVersionPrefix = "/v1";

bool IsSchemeChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '-' || c == '.';
}

struct Target {
  std::string_view authority;
  std::string_view path;  // Without its query.
};

Target SplitTarget(std::string_view target) {
  target = target.substr(0, target.find('?'));
  const size_t colon = target.find("://");
  if (target.starts_with('/') || colon == std::string_view::npos || colon == 0) return {{}, target};
  for (char c : target.substr(0, colon)) {
    if (!IsSchemeChar(c)) return {{}, target};
  }
  target.remove_prefix(colon + 3);
  const size_t slash = target.find('/');
  if (slash == std::string_view::npos) return {target, "/"};
  return {target.substr(0, slash), target.substr(slash)};
}

// The argument in `path` by `pattern`, "" where that has none; nullopt: the path is another.
std::optional<std::string_view> ArgumentOf(std::string_view path, std::string_view pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos) {
    return path == pattern ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view begin = pattern.substr(0, open);
  const std::string_view end = pattern.substr(pattern.find('}') + 1);
  if (!path.starts_with(begin) || !path.ends_with(end)) return std::nullopt;
  if (path.size() <= begin.size() + end.size()) return std::nullopt;
  return path.substr(begin.size(), path.size() - begin.size() - end.size());
}

void AddMethods(const Route& route, RouteMatch* match) {
  match->methods += match->methods.empty() ? "" : ", ";
  match->methods += route.method == "GET" ? "GET, HEAD" : route.method;
}

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string_view AuthorityOf(std::string_view target) { return SplitTarget(target).authority; }

RouteTable::RouteTable(std::vector<Route> routes, Route nothing)
    : routes_(std::move(routes)), nothing_(std::move(nothing)) {}

bool RouteTable::Find(std::string_view method, std::string_view path, RouteMatch* match) const {
  for (const Route& route : routes_) {
    const std::optional<std::string_view> argument = ArgumentOf(path, route.path);
    if (!argument || (match->route != nullptr && match->name != route.path)) continue;
    const bool takes = route.method == method || (route.method == "GET" && method == "HEAD");
    if (match->route == nullptr || takes) match->route = &route;
    match->name = route.path;
    match->method_allowed = match->method_allowed || takes;
    match->options = method == "OPTIONS";
    AddMethods(route, match);
    match->argument = *argument;
  }
  return match->route != nullptr;
}

RouteMatch RouteTable::Match(std::string_view method, std::string_view target) const {
  RouteMatch match;
  const std::string_view path = SplitTarget(target).path;
  std::string_view shorter = path;
  if (path.size() > 2 && path.ends_with('/')) shorter.remove_suffix(1);  // Not of "//".
  if (Find(method, shorter, &match)) return match;
  if (Find(method, std::string(kVersionPrefix).append(shorter), &match)) return match;
  match.route = &nothing_;
  match.name = nothing_.path;
  match.argument = path;
  match.options = path == "*" && method == "OPTIONS";  // The server as a whole.
  match.method_allowed = !match.options;
  for (const Route& route : routes_) {
    if (match.options && match.methods.find(route.method) == match.methods.npos)
      AddMethods(route, &match);
  }
  return match;
}

std::string_view RouteTable::Suggest(std::string_view path) const {
  constexpr size_t kMostEdits = 2;
  constexpr size_t kFar = 40;
  if (path.ends_with('/')) path.remove_suffix(1);
  std::string_view nearest;
  size_t least = kFar;
  for (const Route& route : routes_) {
    if (route.limits.page || route.path.find('{') != std::string_view::npos) continue;
    size_t edits = base::EditDistance(path, route.path, kFar);
    if (route.path.starts_with(kVersionPrefix)) {
      const std::string_view shorter = route.path.substr(kVersionPrefix.size());
      edits = std::min(edits, base::EditDistance(path, shorter, kFar));
    }
    if (edits >= least || (edits > kMostEdits && LastPart(path) != LastPart(route.path))) continue;
    least = edits;
    nearest = route.path;
  }
  return nearest;
}

}  // namespace ropeway::http
