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
  std::string_view path;
  std::string_view query;
};

Target SplitTarget(std::string_view target) {
  std::string_view query;
  if (const size_t mark = target.find('?'); mark != std::string_view::npos) {
    query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  const Target whole = {{}, target, query};
  const size_t colon = target.find("://");
  if (target.starts_with('/') || colon == std::string_view::npos || colon == 0) return whole;
  for (char c : target.substr(0, colon)) {
    if (!IsSchemeChar(c)) return whole;
  }
  target.remove_prefix(colon + 3);
  const size_t slash = target.find('/');
  if (slash == std::string_view::npos) return {target, "/", query};
  return {target.substr(0, slash), target.substr(slash), query};
}

// A pattern's text before its first argument, that argument's name, and the rest.
struct Cut {
  std::string_view begin;
  std::string_view name;
  std::string_view rest;
};

std::optional<Cut> CutAtArgument(std::string_view pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos) return std::nullopt;
  const size_t close = pattern.find('}', open);
  return Cut{pattern.substr(0, open), pattern.substr(open + 1, close - open - 1),
             pattern.substr(close + 1)};
}

// The arguments in `path` by `pattern`; nullopt: the path is another.
std::optional<std::vector<std::string>> ArgumentsOf(std::string_view path,
                                                    std::string_view pattern) {
  std::vector<std::string> arguments;
  while (const std::optional<Cut> cut = CutAtArgument(pattern)) {
    if (!path.starts_with(cut->begin)) return std::nullopt;
    path.remove_prefix(cut->begin.size());
    const size_t size = cut->rest.empty() ? path.size() : std::min(path.find('/'), path.size());
    if (size == 0) return std::nullopt;
    arguments.emplace_back(path.substr(0, size));
    path.remove_prefix(size);
    pattern = cut->rest;
  }
  return path == pattern ? std::optional(std::move(arguments)) : std::nullopt;
}

void AddMethods(const Route& route, RouteMatch* match) {
  match->methods += match->methods.empty() ? "" : ", ";
  match->methods += route.method == "GET" ? "GET, HEAD" : route.method;
}

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string_view> ArgumentNames(std::string_view path) {
  std::vector<std::string_view> names;
  while (const std::optional<Cut> cut = CutAtArgument(path)) {
    names.push_back(cut->name);
    path = cut->rest;
  }
  return names;
}

std::string_view AuthorityOf(std::string_view target) { return SplitTarget(target).authority; }

RouteTable::RouteTable(std::vector<Route> routes, Route nothing)
    : routes_(std::move(routes)), nothing_(std::move(nothing)) {}

bool RouteTable::Find(std::string_view method, std::string_view path, RouteMatch* match) const {
  for (const Route& route : routes_) {
    if (match->route != nullptr && match->name != route.path) continue;
    std::optional<std::vector<std::string>> arguments = ArgumentsOf(path, route.path);
    if (!arguments) continue;
    const bool takes = route.method == method || (route.method == "GET" && method == "HEAD");
    if (match->route == nullptr || takes) match->route = &route;
    match->name = route.path;
    match->method_allowed = match->method_allowed || takes;
    match->options = method == "OPTIONS";
    AddMethods(route, match);
    match->arguments = *std::move(arguments);
  }
  return match->route != nullptr;
}

RouteMatch RouteTable::Match(std::string_view method, std::string_view target) const {
  RouteMatch match;
  const auto [authority, path, query] = SplitTarget(target);
  match.query = query;
  std::string_view shorter = path;
  if (path.size() > 2 && path.ends_with('/')) shorter.remove_suffix(1);  // Not of "//".
  if (Find(method, shorter, &match)) return match;
  if (Find(method, std::string(kVersionPrefix).append(shorter), &match)) return match;
  match.route = &nothing_;
  match.name = nothing_.path;
  match.arguments.emplace_back(path);
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
