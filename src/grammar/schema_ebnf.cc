#include "grammar/schema_ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/words.h"
#include "grammar/ebnf.h"
#include "grammar/format_ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/range_ebnf.h"
#include "grammar/schema_tree.h"

namespace ropeway::grammar {

namespace {

using Json = nlohmann::ordered_json;
using Node = Ebnf::Node;

// Writes the rules of one schema. Throws Rejected.
class Converter {
 public:
  Converter(const Json& root, Ebnf* ebnf, JsonRules* json)
      : tree_(root),
        ebnf_(*ebnf),
        json_(*json),
        patterns_(ebnf, json),
        bytes_before_(ebnf->bytes()) {}

  // Whether only objects are valid.
  bool IsOfObjects() const {
    const std::optional<Place> root = tree_.Resolve({&tree_.root(), "#"});
    if (!root || !root->schema->is_object()) return false;
    const Keywords keywords = tree_.Read(*root);
    return keywords.form == Form::kTypes && keywords.types == std::vector<Type>{Type::kObject};
  }

  // `holder`: of the members of a schema of objects.
  Ebnf::Rule Convert(JsonRules::Holder holder = JsonRules::Holder::kObject) {
    const Ebnf::Rule root = ebnf_.Declare();
    ebnf_.Define(root, Schema({&tree_.root(), "#"}, {.holder = holder}));
    // A reference is converted here and not where it stands: a chain of them takes no stack.
    for (size_t i = 0; i < references_.size(); ++i) {
      const Reference reference = references_[i];
      ebnf_.Define(reference.rule, Schema(reference.target, reference.manner));
    }
    CheckRules(root);
    return root;
  }

  [[noreturn]] static void RejectSize() {
    Reject("#", fmt::format("the schema is too large: its grammar has more than {} bytes",
                            kMaxEbnfBytes));
  }

 private:
  // Schemas in schemas: this class calls itself for each.
  static constexpr int kMaxNesting = 64;
  struct Nesting {
    Nesting(Converter* of, const Place& place) : converter(of) {
      if (++converter->nesting_ > kMaxNesting) {
        Reject(place.path, fmt::format("the schema is nested deeper than {} levels", kMaxNesting));
      }
    }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --converter->nesting_; }
    Converter* const converter;
  };

  // How objects are written.
  struct Manner {
    std::set<std::string> forced = {};  // Properties that must be there though they are optional.
    JsonRules::Holder holder = JsonRules::Holder::kObject;
  };

  struct Reference {
    Ebnf::Rule rule;
    Place target;
    Manner manner;
  };

  void CheckRules(Ebnf::Rule root) const {
    const auto place = [&](const std::vector<Ebnf::Rule>& rules) -> std::string {
      for (const Reference& reference : references_) {
        if (std::find(rules.begin(), rules.end(), reference.rule) != rules.end())
          return reference.target.path;
      }
      return "#";
    };
    if (const auto circle = ebnf_.FindLeftRecursion(root); !circle.empty()) {
      Reject(place(circle),
             "the keyword '$ref' leads back to this schema with nothing between: no value would "
             "end it");
    }
    if (const auto endless = ebnf_.FindEndless(root); !endless.empty()) {
      Reject(place(endless), "no finite value is valid: it requires itself");
    }
  }

  Node Schema(const Place& place, const Manner& manner) {
    if (ebnf_.bytes() - bytes_before_ > 4 * kMaxEbnfBytes) RejectSize();
    const Nesting nesting(this, place);
    const Json& schema = *place.schema;
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return json_.Any();
      Reject(place.path, "the schema is false: no value is valid");
    }
    const Keywords keywords = tree_.Read(place);
    switch (keywords.form) {
      case Form::kAny:
        return json_.Any();
      case Form::kReference:
        tree_.CheckTypes(place, "$ref", keywords, tree_.Target(place));
        return Call(tree_.Target(place), manner);
      case Form::kAllOf:
        tree_.CheckTypes(place, "allOf", keywords, tree_.Only(place, "allOf"));
        return Schema(tree_.Only(place, "allOf"), manner);
      case Form::kValues:
        return Values(place);
      case Form::kAnyOf:
        return AnyOf(place, keywords, manner);
      case Form::kOneOf:
        return OneOf(place, keywords, manner);
      case Form::kTypes:
        break;
    }
    std::vector<Node> ways;
    for (const Type type : keywords.types) ways.push_back(OfType(place, type, manner));
    return ebnf_.Shared(ebnf_.Choice(ways));
  }

  Node Call(const Place& target, const Manner& manner) {
    std::string key = target.path;
    key += JsonRules::Brackets(manner.holder);
    for (const std::string& name : manner.forced) key += '\n' + name;
    const auto [entry, added] = rules_.emplace(std::move(key), -1);
    if (added) {
      entry->second = ebnf_.Declare();
      references_.push_back({entry->second, target, manner});
    }
    return ebnf_.Call(entry->second);
  }

  // const and enum.
  Node Values(const Place& place) {
    const std::vector<const Json*> values = tree_.ValuesOf(place);
    values_ += static_cast<int>(values.size());
    if (values_ > kMaxEnumValues) {
      Reject(place.path,
             fmt::format(
                 "the keyword 'enum' has too many values: at most {} are supported in a schema",
                 kMaxEnumValues));
    }
    std::vector<Node> ways;
    for (const Json* const value : values) ways.push_back(Value(place, *value));
    return ebnf_.Shared(ebnf_.Choice(ways));
  }

  Node Value(const Place& place, const Json& value) {
    const std::optional<Node> written = json_.Value(value);
    if (written) return *written;
    Reject(place.path,
           "a value of the keyword 'const' or 'enum' has the mark in it that ends strings in this "
           "model's calls");
  }

  Node AnyOf(const Place& place, const Keywords& keywords, const Manner& manner) {
    std::vector<Node> ways;
    for (const Place& way : tree_.Alternatives(place, "anyOf", keywords))
      ways.push_back(Schema(way, manner));
    return ebnf_.Shared(ebnf_.Choice(ways));
  }

  // Exactly one alternative must be valid. So each two of them must exclude each other, and what
  // tells objects apart is always written.
  Node OneOf(const Place& place, const Keywords& keywords, const Manner& manner) {
    const std::vector<Place> alternatives = tree_.Alternatives(place, "oneOf", keywords);
    std::vector<Manner> tags(alternatives.size(), manner);
    for (size_t i = 0; i < alternatives.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        std::string tag;
        if (!tree_.Exclude(alternatives[j], alternatives[i], &tag)) {
          Reject(
              place.path,
              fmt::format("the alternatives {} and {} of the keyword 'oneOf' may both be valid: "
                          "they must differ "
                          "in their type, or in the values of a property; 'anyOf' has no such rule",
                          j, i));
        }
        if (tag.empty()) continue;
        tags[i].forced.insert(tag);
        tags[j].forced.insert(tag);
      }
    }
    std::vector<Node> ways;
    for (size_t i = 0; i < alternatives.size(); ++i)
      ways.push_back(Schema(alternatives[i], tags[i]));
    return ebnf_.Shared(ebnf_.Choice(ways));
  }

  Node OfType(const Place& place, Type type, const Manner& manner) {
    switch (type) {
      case Type::kNull:
        return json_.Null();
      case Type::kBoolean:
        return json_.Boolean();
      case Type::kInteger:
      case Type::kNumber:
        if (const std::optional<Node> range = NumericRange(place, type, &ebnf_)) return *range;
        return type == Type::kInteger ? json_.Integer() : json_.Number();
      case Type::kString:
        return String(place);
      case Type::kArray:
        return Array(place);
      case Type::kObject:
        return Object(place, manner);
    }
    return json_.Any();
  }

  Node String(const Place& place) {
    if (Find(*place.schema, "format") != nullptr) {
      if (const std::optional<Node> format = FormatString(place, &patterns_)) return *format;
    }
    if (Find(*place.schema, "pattern") != nullptr) return patterns_.String(place);
    const int least = Count(place, "minLength", kMaxMinLength).value_or(0);
    const std::optional<int> most = Count(place, "maxLength", kMaxMaxLength);
    if (most && *most < least)
      Reject(place.path, "the keyword 'maxLength' is less than 'minLength'");
    if (most) return json_.LimitedString(least, *most);
    if (least == 0) return ebnf_.Shared(json_.String());
    return ebnf_.Shared(ebnf_.Sequence({json_.Quote(), json_.StringRest(least)}));
  }

  Node Array(const Place& place) {
    const int least = Count(place, "minItems", kMaxMinItems).value_or(0);
    const std::optional<int> most = Count(place, "maxItems", kMaxMaxItems);
    if (most && *most < least) Reject(place.path, "the keyword 'maxItems' is less than 'minItems'");
    if (IsUnique(place) && most.value_or(2) > 1) return Set(place, least, most);
    std::vector<Node> first;
    for (const Place& item : tree_.List(place, "prefixItems")) first.push_back(Schema(item, {}));
    const std::optional<Place> items = tree_.Child(place, "items");
    const bool closed = items && items->schema->is_boolean() && !items->schema->get<bool>();
    std::optional<Node> rest;
    if (closed || (!items && !first.empty() && least <= static_cast<int>(first.size()))) {
      if (least > static_cast<int>(first.size())) {
        Reject(place.path,
               "the keyword 'minItems' asks for more items than 'prefixItems' and 'items' allow");
      }
    } else {
      rest = items ? Schema(*items, {}) : json_.Any();
    }
    return json_.Array(first, rest, least, most.value_or(Ebnf::kNoLimit));
  }

  static bool IsUnique(const Place& place) {
    const Json* const unique = Find(*place.schema, "uniqueItems");
    if (unique == nullptr) return false;
    if (!unique->is_boolean())
      Reject(place.path, "the keyword 'uniqueItems' must be true or false");
    return unique->get<bool>();
  }

  // Distinct items: a grammar can only leave out what it lists.
  Node Set(const Place& place, int least, std::optional<int> most) {
    const std::optional<Place> items = tree_.Child(place, "items");
    const std::optional<Place> item = items ? tree_.Resolve(*items) : std::nullopt;
    const bool listed = item && item->schema->is_object() &&
                        tree_.Read(*item).form == Form::kValues &&
                        Find(*place.schema, "prefixItems") == nullptr;
    std::vector<const Json*> values;
    if (listed) values = tree_.ValuesOf(*item);
    const auto is_scalar = [](const Json* value) { return value->is_primitive(); };
    if (!listed || !std::all_of(values.begin(), values.end(), is_scalar)) {
      Reject(place.path,
             "the keyword 'uniqueItems' is supported only where 'items' has an 'enum' without "
             "lists and objects, as a grammar cannot compare items");
    }
    CountOptional(place, "enum", static_cast<int>(values.size()));
    std::vector<JsonRules::Member> members;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto equal = [&](const Json* value) { return *value == *values[i]; };  // 1 and 1.0.
      if (std::any_of(values.begin(), values.begin() + static_cast<ptrdiff_t>(i), equal)) continue;
      members.push_back({Value(place, *values[i]), /*required=*/false});
    }
    return InOrder(place, "[]", members, "Items", least, most);
  }

  // `what`: what the keywords of `least` and `most` end in.
  Node InOrder(const Place& place, std::string_view brackets,
               const std::vector<JsonRules::Member>& members, const char* what, int least,
               std::optional<int> most) {
    const auto counted = static_cast<size_t>(std::max(least, most.value_or(0)));
    if (std::min(counted, members.size()) * members.size() > kMaxCounted) {
      Reject(place.path,
             fmt::format("the keywords 'min{0}' and 'max{0}' are too large for so many", what));
    }
    const auto node = json_.Members(brackets, members, least, most.value_or(Ebnf::kNoLimit));
    if (node) return *node;
    if (least > static_cast<int>(members.size())) {
      Reject(place.path, fmt::format("the keyword 'min{}' is {}, but there are only {}", what,
                                     least, members.size()));
    }
    Reject(place.path,
           fmt::format("the keyword 'max{}' is {}, but more are required", what, most.value_or(0)));
  }

  // Each choice of optional parts is a way through the grammar.
  void CountOptional(const Place& place, const char* keyword, int count) {
    optional_ += count;
    if (count <= kMaxObjectOptional && optional_ <= kMaxOptional) return;
    Reject(place.path, fmt::format("the keyword '{}' has too many optional ones: at most {} are "
                                   "supported in an object or a set, and {} in a schema",
                                   keyword, kMaxObjectOptional, kMaxOptional));
  }

  Node Object(const Place& place, const Manner& manner) {
    const std::vector<std::string> required = tree_.Required(place);
    const Json* const properties = Find(*place.schema, "properties");
    if (properties != nullptr && !properties->is_object()) {
      Reject(place.path, "the keyword 'properties' must be an object with schemas");
    }
    const std::optional<int> least = Count(place, "minProperties", kMaxMinItems);
    const std::optional<int> most = Count(place, "maxProperties", kMaxMaxItems);
    if (most && *most < least.value_or(0)) {
      Reject(place.path, "the keyword 'maxProperties' is less than 'minProperties'");
    }
    if (properties == nullptr || properties->empty())
      return FreeObject(place, manner.holder, required, least, most);

    if (Find(*place.schema, "propertyNames") != nullptr) {
      Reject(place.path, "the keyword 'propertyNames' is not supported beside 'properties'");
    }
    const std::set<std::string> wanted(required.begin(), required.end());
    std::vector<JsonRules::Member> members;
    for (const auto& [name, schema] : properties->items()) {
      const bool needed = wanted.count(name) > 0 || manner.forced.count(name) > 0;
      if (schema.is_boolean() && !schema.template get<bool>() && !needed)
        continue;  // It may not be there.
      const Place at = Under(Under(place, "properties"), name, schema);
      const Node key = Key(place, name, manner.holder);
      members.push_back({json_.Pair(key, Schema(at, {}), manner.holder), needed});
    }
    for (const std::string& name : required) {
      if (properties->find(name) == properties->end()) RejectRequired(place, name);
    }
    return Members(place, "properties", manner.holder, members, least, most);
  }

  [[noreturn]] static void RejectRequired(const Place& place, const std::string& name) {
    Reject(place.path,
           fmt::format("the keyword 'required' names '{}', which is not in 'properties'",
                       Shown(name)));
  }

  Node Key(const Place& place, const std::string& name, JsonRules::Holder holder) {
    const std::optional<Node> key = json_.Key(name, holder);
    if (key) return *key;
    Reject(place.path,
           fmt::format("the name '{}' of a property {}", Shown(name),
                       holder == JsonRules::Holder::kCall
                           ? "must be a name in Python, as this model writes calls in its syntax"
                           : "has the mark in it that ends strings in this model's calls"));
  }

  Node Members(const Place& place, const char* keyword, JsonRules::Holder holder,
               const std::vector<JsonRules::Member>& members, std::optional<int> least,
               std::optional<int> most) {
    const auto optional = std::count_if(members.begin(), members.end(),
                                        [](const auto& each) { return !each.required; });
    CountOptional(place, keyword, static_cast<int>(optional));
    return InOrder(place, JsonRules::Brackets(holder), members, "Properties", least.value_or(0),
                   most);
  }

  // An object without `properties`.
  Node FreeObject(const Place& place, JsonRules::Holder holder,
                  const std::vector<std::string>& required, std::optional<int> least,
                  std::optional<int> most) {
    const std::optional<Place> values = tree_.Child(place, "additionalProperties");
    const bool closed = values && values->schema->is_boolean() && !values->schema->get<bool>();
    const Node value = closed || !values ? json_.Any() : Schema(*values, {});
    Node key = json_.AnyKey(holder);
    if (const std::optional<Place> names = tree_.Child(place, "propertyNames"); names && !closed) {
      const std::optional<Place> name = tree_.Resolve(*names);
      if (name && name->schema->is_object() && tree_.Read(*name).form == Form::kValues) {
        return ListedKeys(place, holder, *name, value, required, least, most);
      }
      key = FittingKey(place, holder, name);
    }
    if (!required.empty()) RejectRequired(place, required[0]);
    if (least.value_or(0) > 1) {
      Reject(place.path,
             "the keyword 'minProperties' above 1 is not supported without 'properties', as keys "
             "could be repeated");
    }
    if (closed && least.value_or(0) > 0)
      Reject(place.path, "the keyword 'minProperties' asks for properties that none may have");
    return json_.Object(key, value, least.value_or(0), closed ? 0 : most.value_or(Ebnf::kNoLimit),
                        holder);
  }

  // An object whose keys are of a list.
  Node ListedKeys(const Place& place, JsonRules::Holder holder, const Place& names, Node value,
                  const std::vector<std::string>& required, std::optional<int> least,
                  std::optional<int> most) {
    std::vector<std::string> keys;
    const std::vector<const Json*> values = tree_.ValuesOf(names);
    if (values.size() > static_cast<size_t>(kMaxEnumValues)) {
      Reject(names.path, fmt::format("the keyword 'enum' has too many values: at most {} are "
                                     "supported in a schema",
                                     kMaxEnumValues));
    }
    for (const Json* const name : values) {
      if (!name->is_string()) continue;  // No key is equal to it.
      const std::string& key = name->get_ref<const std::string&>();
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
    for (const std::string& name : required) {
      if (std::find(keys.begin(), keys.end(), name) == keys.end()) RejectRequired(place, name);
    }
    std::vector<JsonRules::Member> members;
    for (const std::string& key : keys) {
      const bool needed = std::find(required.begin(), required.end(), key) != required.end();
      members.push_back({json_.Pair(Key(place, key, holder), value, holder), needed});
    }
    return Members(place, "propertyNames", holder, members, least, most);
  }

  // A key that is valid by `propertyNames`.
  Node FittingKey(const Place& place, JsonRules::Holder holder, const std::optional<Place>& name) {
    const bool any = name && name->schema->is_boolean() && name->schema->get<bool>();
    if (any) return json_.AnyKey(holder);
    if (holder == JsonRules::Holder::kCall) {
      Reject(place.path,
             "the keyword 'propertyNames' must be an 'enum' here, as this model writes calls in "
             "Python's syntax");
    }
    const Keywords keywords = name && name->schema->is_object() ? tree_.Read(*name) : Keywords{};
    const bool strings =
        keywords.form == Form::kTypes && keywords.types == std::vector<Type>{Type::kString};
    if (strings) return String(*name);
    Reject(place.path,
           "the keyword 'propertyNames' must be a schema of strings, or an 'enum' of them");
  }

  const SchemaTree tree_;
  Ebnf& ebnf_;
  JsonRules& json_;
  PatternWriter patterns_;
  const size_t bytes_before_;
  std::vector<Reference> references_;
  std::map<std::string, Ebnf::Rule>
      rules_;  // By the path of a reference's target, and what is forced there.
  int nesting_ = 0;
  int values_ = 0;
  int optional_ = 0;
};

}  // namespace

StatusOr<std::string> SchemaToEbnf(const nlohmann::ordered_json& schema) try {
  Ebnf ebnf;
  JsonRules json(&ebnf);
  const Ebnf::Rule root = Converter(schema, &ebnf, &json).Convert();
  std::string text = ebnf.Print(root);
  if (text.size() > kMaxEbnfBytes) Converter::RejectSize();
  return text;
} catch (const Rejected& rejected) {
  return InvalidArgument(rejected.message);
} catch (...) {
  return base::CurrentFailure("reading the schema");
}

StatusOr<Ebnf::Node> ArgumentsEbnf(const nlohmann::ordered_json& schema, Ebnf* ebnf,
                                   JsonRules* json) try {
  Converter converter(schema, ebnf, json);
  const Ebnf::Rule root = converter.Convert(json->arguments());
  if (!converter.IsOfObjects()) Reject("#", "the keyword 'type' must be \"object\"");
  return ebnf->Call(root);
} catch (const Rejected& rejected) {
  return InvalidArgument(rejected.message);
} catch (...) {
  return base::CurrentFailure("reading the schema");
}

StatusOr<Ebnf::Node> ValueEbnf(const nlohmann::ordered_json& schema, Ebnf* ebnf,
                               JsonRules* json) try {
  return ebnf->Call(Converter(schema, ebnf, json).Convert());
} catch (const Rejected& rejected) {
  return InvalidArgument(rejected.message);
} catch (...) {
  return base::CurrentFailure("reading the schema");
}

Ebnf::Node AnyArguments(Ebnf* ebnf, JsonRules* json) {
  const JsonRules::Holder holder = json->arguments();
  return ebnf->Shared(json->Object(json->AnyKey(holder), json->Any(), 0, Ebnf::kNoLimit, holder));
}

std::string AnyObjectEbnf() {
  Ebnf ebnf;
  JsonRules json(&ebnf);
  const Ebnf::Rule root = ebnf.Declare();
  ebnf.Define(root, AnyArguments(&ebnf, &json));
  return ebnf.Print(root);
}

}  // namespace ropeway::grammar
