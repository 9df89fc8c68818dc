// The functions, filters, tests and methods of the language. A template that names another one is
// rejected when it is parsed.
#ifndef ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
#define ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace ropeway::tokenizer::jinja {

using NamedValues = std::vector<std::pair<std::string_view, Value>>;

// The arguments of a call as the template writes them.
struct CallArguments {
  List positional;
  NamedValues named;
};

// The arguments of a call by the parameters of the builtin. A value of the wrong type throws
// std::invalid_argument.
class Arguments {
 public:
  Arguments(const Builtin& builtin, CallArguments call);

  bool Given(size_t i) const { return i < slots_.size() && slots_[i]; }
  // Whether the parameter was given, and not as none.
  bool Has(size_t i) const { return Given(i) && !slots_[i]->is_none(); }
  const Value& operator[](size_t i) const { return *slots_[i]; }  // REQUIRES: Given(i).

  // The parameter as a string. REQUIRES: Given(i).
  const std::string& String(size_t i) const { return StrAt(i).text; }
  const Str& StrAt(size_t i) const;
  // The parameter, or a default where it was not given.
  const std::string& Text(size_t i) const;  // "" by default.
  int64_t Integer(size_t i, int64_t otherwise) const;
  bool Flag(size_t i) const { return Given(i) && slots_[i]->Truth(); }

  // The arguments for "..." and "**".
  const List& rest() const { return rest_; }
  const NamedValues& named() const { return named_; }

 private:
  const Builtin& builtin_;
  std::vector<std::optional<Value>> slots_;
  List rest_;
  NamedValues named_;
};

// What a builtin is; flags.
enum BuiltinKind : unsigned {
  kFunction = 1,
  kFilter = 2,
  kTest = 4,
  kStringMethod = 8,
  kListMethod = 16,
  kDictMethod = 32,
  kLoopMethod = 64,
  kAnyMethod = kStringMethod | kListMethod | kDictMethod | kLoopMethod,
};

struct Builtin {
  std::string_view name;
  unsigned kinds;
  // The names of the parameters, separated by spaces; "..." accepts any more, "**" any names.
  std::string_view parameters;
  size_t required;
  // `operand`: of a filter or test, or the object of a method. Throws std::invalid_argument where
  // it or an argument is not acceptable.
  Value (*apply)(Context& context, const Value& operand, const Arguments& arguments);
};

// All builtins, by file.
std::span<const Builtin> CoreBuiltins();  // Functions and tests: builtins.cc.
std::span<const Builtin> TextBuiltins();  // text_builtins.cc
std::span<const Builtin>
ListBuiltins();  // For lists, dictionaries, loops, numbers: list_builtins.cc.

// The builtin of one of `kinds` by this name; nullptr: none.
const Builtin* FindBuiltin(unsigned kinds, std::string_view name);
// Whether any type has such a method, supported or forbidden.
bool IsMethod(std::string_view name);

// Why `builtin` cannot be called with so many arguments and with these names; "" if it can.
std::string SignatureError(const Builtin& builtin, size_t positional,
                           const std::vector<std::string_view>& names);

// object.name and object[key]. As in Jinja, each finds attributes and items.
Value AttributeOf(const Value& object, std::string_view name, Context& context);
Value ItemOf(const Value& object, const Value& key, Context& context);
// The value at `path`, an index or "name.name.0", in `item`.
Value AtPath(const Value& item, const Value& path, Context& context);

// format.format(...): {}, {0} and {name}, without conversions or format specifications. Throws
// std::invalid_argument for those.
Str FormatBraces(const Str& format, const Arguments& arguments, Context& context);

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
