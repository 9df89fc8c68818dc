// What a JSON Schema says, read and checked: its keywords, its references and what tells
// alternatives apart.
#ifndef ROPEWAY_GRAMMAR_SCHEMA_TREE_H_
#define ROPEWAY_GRAMMAR_SCHEMA_TREE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::grammar {

// Thrown for a schema that is not supported; caught in SchemaToEbnf.
struct Rejected {
  std::string message;
};

// Not more than about `most` bytes of a text, for messages.
std::string Shown(const std::string& text, size_t most = 128);

[[noreturn]] void Reject(const std::string& path, std::string_view why);

enum class Type { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

// A schema in its tree, and the JSON pointer to it.
struct Place {
  const nlohmann::ordered_json* schema;
  std::string path;
  // The `type` that it takes over from beside the anyOf or oneOf that it is in; empty: none.
  std::vector<Type> inherited = {};
};

// What a schema is built on. Each form allows its own keywords.
enum class Form { kAny, kReference, kAllOf, kValues, kAnyOf, kOneOf, kTypes };

struct Keywords {
  Form form = Form::kAny;
  // kTypes: the types that may be; without `type` the one that the other keywords are for. Other
  // forms: those that stand beside it; empty: any.
  std::vector<Type> types;
};

// The member; null: there is none. REQUIRES: `schema` is an object.
const nlohmann::ordered_json* Find(const nlohmann::ordered_json& schema, std::string_view key);

// The place of a member of `place`, or of a map in it.
Place Under(const Place& place, const std::string& key, const nlohmann::ordered_json& schema);
Place Under(const Place& place, const std::string& key);

// The keyword's count; nullopt: it is not there. Throws for anything but a whole number of 0 to
// `most`.
std::optional<int> Count(const Place& place, const char* keyword, int most);

// All of its functions may throw Rejected. Not thread-safe: it counts what they look at, so that no
// schema takes long.
class SchemaTree {
 public:
  // `root` must outlive it.
  explicit SchemaTree(const nlohmann::ordered_json& root) : root_(root) {}

  const nlohmann::ordered_json& root() const { return root_; }

  // Rejects each keyword that the schema's form does not have.
  Keywords Read(const Place& place) const;

  // What `$ref` points to.
  Place Target(const Place& place) const;
  // The only member of the list `keyword`.
  Place Only(const Place& place, const char* keyword) const;
  // The members of a list of schemas; empty: the keyword is not there.
  std::vector<Place> List(const Place& place, const char* keyword) const;
  // The schema under `keyword`.
  std::optional<Place> Child(const Place& place, const char* keyword) const;
  // The members of anyOf or oneOf, which inherit the types that `keywords` has if they have none.
  // Those of other types are rejected.
  std::vector<Place> Alternatives(const Place& place, const char* keyword,
                                  const Keywords& keywords) const;
  // Rejects `place` if `member`, which stands under its `keyword`, has other types than `keywords`.
  void CheckTypes(const Place& place, const char* keyword, const Keywords& keywords,
                  const Place& member) const;
  // The values of `const` or `enum` that are of the schema's `type`, if it has one.
  std::vector<const nlohmann::ordered_json*> ValuesOf(const Place& place) const;
  std::vector<std::string> Required(const Place& place) const;

  // The schema behind references and an allOf of one; null: it goes on for too long.
  std::optional<Place> Resolve(Place place) const;

  // Whether no value is valid by both. Objects: so long as both have the property `tag`, which is
  // empty where that does not matter.
  bool Exclude(const Place& a, const Place& b, std::string* tag) const;

 private:
  // A bit for each type that a valid value may have.
  unsigned TypesOf(const Place& place, int depth) const;
  // Those that `place` inherits or has; without any all.
  static unsigned BitsOf(const Place& place, const Keywords& keywords);
  bool ExcludeByValue(const Place& a, const Place& b) const;

  static void RejectIds(const Place& place);
  void CheckDraft() const;
  // Rejects a schema once too much of it was looked at.
  void Spend(size_t steps) const;

  const nlohmann::ordered_json& root_;
  mutable size_t steps_ = 0;
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_SCHEMA_TREE_H_
