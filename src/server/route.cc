#include "server/route.h"

#include <optional>
#include <utility>

namespace ropeway::server {
namespace {

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

}  // namespace

RouteTable::RouteTable(std::vector<Route> routes, Route nothing)
    : routes_(std::move(routes)), nothing_(std::move(nothing)) {}

bool RouteTable::Find(std::string_view method, std::string_view path, RouteMatch* match) const {
  for (const Route& route : routes_) {
    const std::optional<std::string_view> argument = ArgumentOf(path, route.path);
    if (!argument || (match->route != nullptr && match->name != route.path)) continue;
    const bool get = route.method == "GET";
    const bool takes = route.method == method || (get && method == "HEAD");
    if (match->route == nullptr || takes) match->route = &route;
    match->name = route.path;
    match->method_allowed = match->method_allowed || takes;
    match->methods += match->methods.empty() ? "" : ", ";
    match->methods += get ? "GET, HEAD" : route.method;
    match->argument = *argument;
  }
  return match->route != nullptr;
}

RouteMatch RouteTable::Match(std::string_view method, std::string_view target) const {
  RouteMatch match;
  if (Find(method, PathOf(target), &match)) return match;
  match.route = &nothing_;
  match.name = nothing_.path;
  match.method_allowed = true;
  return match;
}

}  // namespace ropeway::server
