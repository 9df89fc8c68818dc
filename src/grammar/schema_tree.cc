#include "grammar/schema_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "base/words.h"
#include "grammar/schema_limits.h"

namespace ropeway::grammar {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxHops = 32;  // References and lists of one that lead to each other.

struct TypeName {
  const char* name;
  Type type;
  unsigned bits;  // Whole numbers have a bit, and other numbers have one.
};
constexpr unsigned kWholeBit = 4;
constexpr unsigned kFractionBit = 64;
constexpr unsigned kObjectBit = 32;
constexpr unsigned kAllTypes = 127;
constexpr TypeName kTypes[] = {
    {"null", Type::kNull, 1},
    {"boolean", Type::kBoolean, 2},
    {"integer", Type::kInteger, kWholeBit},
    {"number", Type::kNumber, kWholeBit | kFractionBit},
    {"string", Type::kString, 8},
    {"array", Type::kArray, 16},
    {"object", Type::kObject, kObjectBit},
};

// The supported keywords, each in one table: those that say nothing about values, those of forms,
// and those of types.
constexpr const char* kAnnotations[] = {"title", "description", "default", "examples", "example",
                                        "$comment", "deprecated", "readOnly", "writeOnly", "$defs",
                                        "definitions", "discriminator",
                                        // OpenAPI's, unknown to JSON Schema: it allows no null.
                                        "nullable"};
constexpr const char* kRootAnnotations[] = {"$schema", "$id"};

struct FormKeywords {
  Form form;
  const char* name;  // The keyword that makes a schema one of this form.
  std::vector<std::string_view> others;
};
const FormKeywords kForms[] = {
    {Form::kReference, "$ref", {"type"}}, {Form::kAllOf, "allOf", {"type"}},
    {Form::kValues, "const", {"type"}},   {Form::kValues, "enum", {"type"}},
    {Form::kAnyOf, "anyOf", {"type"}},    {Form::kOneOf, "oneOf", {"type"}},
};

struct TypeKeyword {
  const char* name;
  Type type;
};
constexpr TypeKeyword kTypeKeywords[] = {
    {"minimum", Type::kNumber},
    {"maximum", Type::kNumber},
    {"exclusiveMinimum", Type::kNumber},
    {"exclusiveMaximum", Type::kNumber},
    {"pattern", Type::kString},
    {"format", Type::kString},
    {"minLength", Type::kString},
    {"maxLength", Type::kString},
    {"items", Type::kArray},
    {"prefixItems", Type::kArray},
    {"minItems", Type::kArray},
    {"maxItems", Type::kArray},
    {"uniqueItems", Type::kArray},
    {"properties", Type::kObject},
    {"required", Type::kObject},
    {"additionalProperties", Type::kObject},
    {"minProperties", Type::kObject},
    {"maxProperties", Type::kObject},
    {"propertyNames", Type::kObject},
};

bool IsAnnotation(const Place& place, std::string_view key) {
  const auto is = [&](const char* name) { return key == name; };
  if (key.starts_with("x-") || std::any_of(std::begin(kAnnotations), std::end(kAnnotations), is))
    return true;
  return place.path == "#" &&
         std::any_of(std::begin(kRootAnnotations), std::end(kRootAnnotations), is);
}

const TypeName& NameOf(Type type) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const TypeName& each) { return each.type == type; });
}

std::optional<Type> FindType(std::string_view name) {
  for (const TypeName& each : kTypes) {
    if (each.name == name) return each.type;
  }
  return std::nullopt;
}

std::optional<Type> TypeOfKeyword(std::string_view key) {
  for (const TypeKeyword& each : kTypeKeywords) {
    if (key == each.name) return each.type;
  }
  return std::nullopt;
}

// Keywords for numbers are for integers, too.
bool AreFor(Type keyword, const std::vector<Type>& types) {
  return std::any_of(types.begin(), types.end(), [&](Type type) {
    return type == keyword || (type == Type::kInteger && keyword == Type::kNumber);
  });
}

bool IsWhole(const Json& number) {
  return number.is_number_integer() ||
         (number.is_number() && std::floor(number.get<double>()) == number.get<double>());
}

bool IsOfType(const Json& value, Type type) {
  switch (type) {
    case Type::kNull:
      return value.is_null();
    case Type::kBoolean:
      return value.is_boolean();
    case Type::kInteger:
      return IsWhole(value);
    case Type::kNumber:
      return value.is_number();
    case Type::kString:
      return value.is_string();
    case Type::kArray:
      return value.is_array();
    case Type::kObject:
      return value.is_object();
  }
  return false;
}

unsigned BitOf(const Json& value) {
  if (value.is_number()) return IsWhole(value) ? kWholeBit : kFractionBit;
  for (const TypeName& each : kTypes) {
    if (IsOfType(value, each.type)) return each.bits;
  }
  return kAllTypes;
}

// The types of the keyword; without it those that are inherited, or none.
std::vector<Type> ReadTypes(const Place& place) {
  const Json* const given = Find(*place.schema, "type");
  if (given == nullptr) return place.inherited;
  std::vector<Type> types;
  const auto add = [&](const Json& name) {
    const std::optional<Type> type =
        name.is_string() ? FindType(name.get_ref<const std::string&>()) : std::nullopt;
    if (!type) {
      Reject(place.path, fmt::format("the keyword 'type' must be 'null', 'boolean', 'integer', "
                                     "'number', 'string', 'array' or 'object', or "
                                     "a list of them, not {}",
                                     Shown(name.dump())));
    }
    if (std::find(types.begin(), types.end(), *type) == types.end()) types.push_back(*type);
  };
  if (given->is_array() && !given->empty()) {
    for (const Json& name : *given) add(name);
  } else {
    add(*given);
  }
  if (std::find(types.begin(), types.end(), Type::kNumber) != types.end()) {
    types.erase(std::remove(types.begin(), types.end(), Type::kInteger), types.end());
  }
  return types;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  while (true) {
    const size_t at = text.find(from);
    replaced += text.substr(0, at);
    if (at == std::string_view::npos) return replaced;
    replaced += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace

std::string Shown(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  return base::ReplaceInvalidUtf8(text.substr(0, most)) + "...";
}

void Reject(const std::string& path, std::string_view why) {
  throw Rejected{fmt::format("at '{}': {}", Shown(path, 256), why)};
}

const Json* Find(const Json& schema, std::string_view key) {
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : &*found;
}

Place Under(const Place& place, const std::string& key, const Json& schema) {
  // Paths are kept for all alternatives on all levels.
  if (key.size() > kMaxKeyBytes) {
    Reject(place.path,
           fmt::format("a name has {} bytes: at most {} are supported", key.size(), kMaxKeyBytes));
  }
  return {&schema, place.path + "/" + Replace(Replace(key, "~", "~0"), "/", "~1")};
}

Place Under(const Place& place, const std::string& key) {
  return Under(place, key, *Find(*place.schema, key));
}

std::optional<int> Count(const Place& place, const char* keyword, int most) {
  const Json* const value = Find(*place.schema, keyword);
  if (value == nullptr) return std::nullopt;
  if (!IsWhole(*value) || value->get<double>() < 0) {
    Reject(place.path,
           fmt::format("the keyword '{}' must be a whole number that is not negative", keyword));
  }
  if (value->get<double>() > most) {
    Reject(place.path, fmt::format("the keyword '{}' must be at most {}, got {}", keyword, most,
                                   value->dump()));
  }
  return static_cast<int>(value->get<double>());
}

void SchemaTree::Spend(size_t steps) const {
  constexpr size_t kMost = 500'000;  // About half a second.
  steps_ += steps;
  if (steps_ > kMost)
    Reject("#", "the schema is too complex: comparing its alternatives takes too many steps");
}

// Drafts before the sixth have other keywords of the same names, and lack some.
void SchemaTree::CheckDraft() const {
  const Json* const draft = Find(root_, "$schema");
  if (draft == nullptr) return;
  for (const char* old : {"draft-00", "draft-01", "draft-02", "draft-03", "draft-04", "draft-05"}) {
    if (draft->dump().find(old) == std::string::npos) continue;
    Reject("#",
           "the keyword '$schema' names a draft that is not supported: draft-06 and later are");
  }
}

Keywords SchemaTree::Read(const Place& place) const {
  const Json& schema = *place.schema;
  Spend(1 + schema.size());
  if (!schema.is_object()) Reject(place.path, "a schema must be an object, true or false");
  if (place.path == "#") CheckDraft();
  const auto form =
      std::find_if(std::begin(kForms), std::end(kForms),
                   [&](const FormKeywords& each) { return Find(schema, each.name) != nullptr; });
  Keywords keywords;
  if (form != std::end(kForms)) {
    keywords.form = form->form;
    keywords.types = ReadTypes(place);
    for (const auto& [key, value] : schema.items()) {
      if (key == form->name || IsAnnotation(place, key)) continue;
      if (std::find(form->others.begin(), form->others.end(), key) == form->others.end()) {
        Reject(place.path, fmt::format("the keyword '{}' is not supported beside '{}'", Shown(key),
                                       form->name));
      }
    }
    return keywords;
  }
  keywords.types = ReadTypes(place);
  const bool inferred = keywords.types.empty();
  for (const auto& [key, value] : schema.items()) {
    if (key == "type" || IsAnnotation(place, key)) continue;
    const std::optional<Type> type = TypeOfKeyword(key);
    if (!type) Reject(place.path, fmt::format("the keyword '{}' is not supported", Shown(key)));
    if (inferred && keywords.types.empty()) keywords.types.push_back(*type);
    if (!AreFor(*type, keywords.types)) {
      Reject(place.path,
             inferred
                 ? fmt::format("the keyword 'type' is missing, and '{}' is for another type than "
                               "other keywords",
                               key)
                 : fmt::format("the keyword '{}' is for the type '{}', which 'type' does not have",
                               key, NameOf(*type).name));
    }
    // Older drafts ignore it, and give `items` another meaning.
    if (const Json* const draft = Find(root_, "$schema");
        key == "prefixItems" && draft != nullptr &&
        draft->dump().find("2020-12") == std::string::npos) {
      Reject(place.path,
             "the keyword 'prefixItems' is not known to the draft that '$schema' names");
    }
  }
  keywords.form = keywords.types.empty() ? Form::kAny : Form::kTypes;
  return keywords;
}

// A property may be called so.
void SchemaTree::RejectIds(const Place& place) {
  for (const char* key : {"$id", "id"}) {
    const Json* const id = Find(*place.schema, key);
    if (id == nullptr || !id->is_string()) continue;
    Reject(place.path, fmt::format("the keyword '{}' is not supported", key));
  }
}

Place SchemaTree::Target(const Place& place) const {
  const Json& reference = *Find(*place.schema, "$ref");
  const std::string text = reference.is_string() ? reference.get<std::string>() : "";
  if (text != "#" && !text.starts_with("#/")) {
    Reject(place.path,
           "the keyword '$ref' must be '#' or begin with '#/': only references into the same "
           "schema are supported");
  }
  Place target{&root_, "#"};
  const std::string pointer = base::PercentDecoded(text.substr(1));
  for (size_t at = 0; at < pointer.size();) {
    const size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    const std::string key =
        Replace(Replace(pointer.substr(at + 1, end - at - 1), "~1", "/"), "~0", "~");
    const Json* next = nullptr;
    if (target.schema->is_object()) {
      next = Find(*target.schema, key);
    } else if (target.schema->is_array()) {
      const std::optional<size_t> index = base::ParseNumber<size_t>(key);
      if (index && *index < target.schema->size()) next = &(*target.schema)[*index];
    }
    if (next == nullptr) {
      Reject(place.path,
             fmt::format("the keyword '$ref' points to '{}', which does not exist", Shown(text)));
    }
    target = Under(target, key, *next);
    // Within it `#` means that schema.
    if (next->is_object() && (Find(*next, "$id") != nullptr || Find(*next, "id") != nullptr)) {
      RejectIds(target);
    }
    at = end;
  }
  return target;
}

Place SchemaTree::Only(const Place& place, const char* keyword) const {
  const std::vector<Place> members = List(place, keyword);
  if (members.size() != 1) {
    Reject(place.path,
           fmt::format("the keyword '{}' is supported only with one schema in its list", keyword));
  }
  return members[0];
}

std::vector<Place> SchemaTree::List(const Place& place, const char* keyword) const {
  const Json* const list = Find(*place.schema, keyword);
  if (list == nullptr) return {};
  if (!list->is_array() || list->empty() || list->size() > kMaxAlternatives) {
    Reject(place.path, fmt::format("the keyword '{}' must be a list of 1 to {} schemas", keyword,
                                   kMaxAlternatives));
  }
  std::vector<Place> members;
  const Place parent = Under(place, keyword);
  for (size_t i = 0; i < list->size(); ++i)
    members.push_back(Under(parent, std::to_string(i), (*list)[i]));
  return members;
}

std::optional<Place> SchemaTree::Child(const Place& place, const char* keyword) const {
  const Json* const child = Find(*place.schema, keyword);
  if (child == nullptr) return std::nullopt;
  if (!child->is_object() && !child->is_boolean()) {
    Reject(place.path,
           fmt::format("the keyword '{}' must be a schema{}", keyword,
                       child->is_array() ? "; 'prefixItems' takes a list of them" : ""));
  }
  return Under(place, keyword);
}

std::vector<Place> SchemaTree::Alternatives(const Place& place, const char* keyword,
                                            const Keywords& keywords) const {
  std::vector<Place> alternatives = List(place, keyword);
  for (Place& each : alternatives) {
    if (each.schema->is_object()) {
      each.inherited = keywords.types;
      const Form form = Read(each).form;
      if (form == Form::kReference || form == Form::kAllOf || form == Form::kValues) {
        each.inherited.clear();
      }
    }
    CheckTypes(place, keyword, keywords, each);
  }
  return alternatives;
}

void SchemaTree::CheckTypes(const Place& place, const char* keyword, const Keywords& keywords,
                            const Place& member) const {
  if (keywords.types.empty()) return;
  unsigned allowed = 0;
  for (const Type type : keywords.types) allowed |= NameOf(type).bits;
  if ((TypesOf(member, 0) & ~allowed) == 0) return;
  Reject(place.path,
         fmt::format("the keyword 'type' is supported beside '{}' only where the schemas there "
                     "have no other types; '{}' has",
                     keyword, Shown(member.path, 256)));
}

std::vector<const Json*> SchemaTree::ValuesOf(const Place& place) const {
  const Json* const one = Find(*place.schema, "const");
  const Json* const several = Find(*place.schema, "enum");
  std::vector<const Json*> values;
  if (one != nullptr) {
    values.push_back(one);
  } else {
    if (!several->is_array()) Reject(place.path, "the keyword 'enum' must be a list of values");
    if (several->empty()) Reject(place.path, "the keyword 'enum' is empty: it allows no value");
    Spend(several->size());
    for (const Json& value : *several) values.push_back(&value);
  }
  if (const std::vector<Type> types = ReadTypes(place); !types.empty()) {
    values.erase(std::remove_if(values.begin(), values.end(),
                                [&](const Json* value) {
                                  return std::none_of(types.begin(), types.end(), [&](Type type) {
                                    return IsOfType(*value, type);
                                  });
                                }),
                 values.end());
    if (values.empty()) {
      Reject(place.path, fmt::format("no value of the keyword '{}' has the schema's type",
                                     one != nullptr ? "const" : "enum"));
    }
  }
  constexpr double kExact =
      9007199254740992;  // 2^53: doubles above it stand for several whole numbers.
  for (const Json* const value : values) {
    if (value->is_number_float() && !(std::abs(value->get<double>()) < kExact)) {
      Reject(place.path,
             "numbers of the keywords 'const' and 'enum' must be below 2^53, or whole numbers of "
             "64 bits");
    }
  }
  return values;
}

std::vector<std::string> SchemaTree::Required(const Place& place) const {
  const Json* const list = Find(*place.schema, "required");
  if (list == nullptr) return {};
  std::vector<std::string> names;
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_text)) {
    Reject(place.path, "the keyword 'required' must be a list of names");
  }
  for (const Json& name : *list) names.push_back(name.get<std::string>());
  return names;
}

std::optional<Place> SchemaTree::Resolve(Place place) const {
  for (int hops = 0; hops < kMaxHops; ++hops) {
    if (place.schema->is_boolean()) return place;
    switch (Read(place).form) {
      case Form::kReference:
        place = Target(place);
        break;
      case Form::kAllOf:
        place = Only(place, "allOf");
        break;
      default:
        return place;
    }
  }
  return std::nullopt;
}

unsigned SchemaTree::BitsOf(const Place& place, const Keywords& keywords) {
  // Without `type` the other keywords say nothing of values of other types.
  if (Find(*place.schema, "type") == nullptr && place.inherited.empty()) return kAllTypes;
  unsigned types = 0;
  for (const Type type : keywords.types) types |= NameOf(type).bits;
  return types;
}

unsigned SchemaTree::TypesOf(const Place& place, int depth) const {
  const std::optional<Place> schema = depth > kMaxHops ? std::nullopt : Resolve(place);
  if (!schema) return kAllTypes;
  if (schema->schema->is_boolean()) return schema->schema->get<bool>() ? kAllTypes : 0;
  const Keywords keywords = Read(*schema);
  unsigned types = 0;
  switch (keywords.form) {
    case Form::kValues:
      for (const Json* const value : ValuesOf(*schema)) types |= BitOf(*value);
      return types;
    case Form::kAnyOf:
    case Form::kOneOf:
      for (const Place& each : List(*schema, keywords.form == Form::kAnyOf ? "anyOf" : "oneOf")) {
        types |= TypesOf(each, depth + 1);
      }
      return types & BitsOf(*schema, keywords);
    default:
      return BitsOf(*schema, keywords);
  }
}

bool SchemaTree::ExcludeByValue(const Place& a, const Place& b) const {
  if (a.schema->is_boolean() || b.schema->is_boolean()) return false;
  if (Read(a).form != Form::kValues || Read(b).form != Form::kValues) return false;
  const std::vector<const Json*> others = ValuesOf(b);
  for (const Json* const value : ValuesOf(a)) {
    Spend(others.size());
    for (const Json* const other : others) {
      // Objects are equal in any order of their members, which == does not see.
      if (*value == *other || (value->is_structured() && value->type() == other->type()))
        return false;
    }
  }
  return true;
}

bool SchemaTree::Exclude(const Place& a, const Place& b, std::string* tag) const {
  const std::optional<Place> one = Resolve(a);
  const std::optional<Place> two = Resolve(b);
  if (!one || !two) return false;
  const unsigned common = TypesOf(*one, 0) & TypesOf(*two, 0);
  if (common == 0 || ExcludeByValue(*one, *two)) return true;
  if (common != kObjectBit || !one->schema->is_object() || !two->schema->is_object()) return false;
  const Json* const properties = Find(*one->schema, "properties");
  const Json* const others = Find(*two->schema, "properties");
  if (properties == nullptr || others == nullptr || !properties->is_object() ||
      !others->is_object())
    return false;
  for (const auto& [name, schema] : properties->items()) {
    Spend(others->size());
    const Json* const other = Find(*others, name);
    if (other == nullptr) continue;
    const std::optional<Place> mine = Resolve(Under(Under(*one, "properties"), name, schema));
    const std::optional<Place> theirs = Resolve(Under(Under(*two, "properties"), name, *other));
    if (!mine || !theirs) continue;
    if ((TypesOf(*mine, 0) & TypesOf(*theirs, 0)) != 0 && !ExcludeByValue(*mine, *theirs)) continue;
    *tag = name;
    return true;
  }
  return false;
}

}  // namespace ropeway::grammar
