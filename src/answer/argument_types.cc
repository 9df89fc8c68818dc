#include "answer/argument_types.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ropeway::answer {
namespace {

using Json = nlohmann::json;

// Schemas within schemas: how deep is looked, and at how many for one tool. References may lead
// anywhere, so that without a limit a small schema could take forever.
constexpr int kMostDepth = 16;
constexpr int kMostSchemas = 4096;
constexpr size_t kMostReferenceBytes = 256;

JsonTypes TypeOfName(std::string_view name) {
  if (name == "string") return kStringType;
  if (name == "number" || name == "integer") return kNumberType;
  if (name == "boolean") return kBooleanType;
  if (name == "null") return kNullType;
  if (name == "object") return kObjectType;
  if (name == "array") return kArrayType;
  return 0;
}

JsonTypes TypeOfValue(const Json& value) {
  if (value.is_number()) return kNumberType;
  return TypeOfName(value.type_name());
}

class TypeFinder {
 public:
  explicit TypeFinder(const Json& root) : root_(root) {}

  JsonTypes Find(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMostDepth || ++schemas_ > kMostSchemas) return kAnyType;
    JsonTypes types = kAnyType;
    if (const Json* target = Referred(schema)) types &= Find(*target, depth + 1);
    if (const auto type = schema.find("type"); type != schema.end()) types &= Named(*type);
    if (const auto value = schema.find("const"); value != schema.end()) {
      types &= TypeOfValue(*value);
    }
    if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
      JsonTypes any = 0;
      for (const Json& value : *values) any |= TypeOfValue(value);
      types &= any;
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      const auto ways = schema.find(key);
      if (ways == schema.end() || !ways->is_array()) continue;
      JsonTypes any = 0;
      for (const Json& way : *ways) any |= Find(way, depth + 1);
      types &= any;
    }
    if (const auto all = schema.find("allOf"); all != schema.end() && all->is_array()) {
      for (const Json& each : *all) types &= Find(each, depth + 1);
    }
    return types == 0 ? kAnyType : types;
  }

  // The schema that `schema` refers to within the document; null: none.
  const Json* Referred(const Json& schema) const {
    std::string_view path = base::Text(base::Member(schema, "$ref"));
    if (path.empty() || path.front() != '#' || path.size() > kMostReferenceBytes) return nullptr;
    path.remove_prefix(1);
    const Json* at = &root_;
    while (!path.empty()) {
      if (path.front() != '/') return nullptr;
      path.remove_prefix(1);
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(name.size());
      const auto found = at->is_object() ? at->find(std::string(name)) : at->end();
      if (found == at->end()) return nullptr;
      at = &*found;
    }
    return at;
  }

 private:
  static JsonTypes Named(const Json& type) {
    if (type.is_string()) return TypeOfName(base::Text(type));
    if (!type.is_array()) return kAnyType;
    JsonTypes any = 0;
    for (const Json& each : type) any |= TypeOfName(base::Text(each));
    return any;
  }

  const Json& root_;
  int schemas_ = 0;
};

}  // namespace

ArgumentTypes ReadArgumentTypes(std::string_view schema) {
  ArgumentTypes types;
  if (schema.empty()) return types;
  const StatusOr<Json> root =
      base::ReadJson(schema, {.max_depth = 128, .repeated_keys = true}, "the schema");
  if (!root.ok()) return types;
  TypeFinder finder(*root);
  const Json* object = finder.Referred(*root);
  if (object == nullptr) object = &*root;
  const Json& properties = base::Member(*object, "properties");
  if (properties.is_object()) {
    for (const auto& [key, property] : properties.items()) {
      types.named[key] = finder.Find(property, 0);
    }
  }
  types.others = finder.Find(base::Member(*object, "additionalProperties"), 0);
  return types;
}

}  // namespace ropeway::answer
