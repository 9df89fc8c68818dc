#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "api/json.h"
#include "core/parameters.h"
#include "server/handlers.h"

namespace ropeway::server {
namespace {

using Json = nlohmann::ordered_json;

// A number of JSON, whole where it can be.
Json Number(double value) {
  return value == std::floor(value) ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json Ranged(const char* type, const core::Parameter& row) {
  return {{"type", type},
          {row.above_low ? "exclusiveMinimum" : "minimum",
           row.no_limit != 0 ? Json(row.no_limit) : Number(row.low)},
          {"maximum", Number(row.high)}};
}

// The JSON that a row takes, by the type of the member that keeps it.
Json TypeOf(const core::Parameter& row) {
  return std::visit(
      [&]<typename Class, typename T>(T Class::*) -> Json {
        if constexpr (std::is_same_v<T, float>) return Ranged("number", row);
        if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, std::optional<int32_t>>) {
          return Ranged("integer", row);
        }
        if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
        if constexpr (std::is_same_v<T, std::string>) return {{"type", "string"}};
        if constexpr (std::is_same_v<T, std::vector<TokenId>>) {
          return {{"type", "array"}, {"items", {{"type", "integer"}}}};
        }
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return {{"type", {"string", "array"}}, {"items", {{"type", "string"}}}};
        }
        if constexpr (std::is_same_v<T, std::vector<LogitBias>>) {
          return {{"type", "object"}, {"additionalProperties", {{"type", "number"}}}};
        }
        return {{"type", "integer"}};
      },
      row.member);
}

// The names of what docs/api.md describes, and the types of those that are parameters.
Json BodySchema(const std::vector<std::string>& fields) {
  Json properties = Json::object();
  for (const std::string& field : fields) {
    Json& property = properties[field] = Json::object();
    const core::Parameter* const row = core::FindParameter(field);
    if (row == nullptr) continue;
    property = TypeOf(*row);
    if (row->help != nullptr) property["description"] = row->help;
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", true}};
}

Json ErrorSchema() {
  const Json text = {{"type", {"string", "null"}}};
  return {
      {"type", "object"},
      {"properties",
       {{"error",
         {{"type", "object"},
          {"properties", {{"message", text}, {"type", text}, {"param", text}, {"code", text}}}}}}}};
}

Json Content(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// "post_v1_models_model".
std::string IdOf(const http::Route& route) {
  std::string id = Lower(route.method);
  for (const char c : route.path) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') id += c;
    if (c == '/') id += '_';
  }
  return id;
}

Json Operation(const http::Route& route) {
  Json operation = {{"operationId", IdOf(route)}, {"summary", route.summary}};
  for (const std::string_view name : http::ArgumentNames(route.path)) {
    operation["parameters"].push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  if (route.limits.takes_body) {
    operation["requestBody"] = {{"required", true}, {"content", Content(BodySchema(route.fields))}};
  }
  operation["responses"] = {{"200", {{"description", "The answer."}}},
                            {"default",
                             {{"description", "The error."},
                              {"content", Content({{"$ref", "#/components/schemas/Error"}})}}}};
  // One of the two, or on servers without keys none; a probe needs none on any.
  operation["security"] = Json::array({Json::object()});
  if (route.rights != http::Rights::kOpen) {
    Json key = Json::array({{{"bearer", Json::array()}}, {{"apiKey", Json::array()}}});
    if (route.rights != http::Rights::kAdmin) key.push_back(Json::object());
    operation["security"] = std::move(key);
  }
  return operation;
}

}  // namespace

std::string OpenApiJson(const std::vector<http::Route>& routes) {
  Json paths;
  for (const http::Route& route : routes) {
    paths[std::string(route.path)][Lower(route.method)] = Operation(route);
  }
  const Json document = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Ropeway"}, {"version", ROPEWAY_VERSION}}},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
          {"apiKey", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-Api-Key"}}}}},
        {"schemas", {{"Error", ErrorSchema()}}}}}};
  return api::DumpJson(document);
}

}  // namespace ropeway::server
