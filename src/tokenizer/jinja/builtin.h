// What the language itself can call: filters, tests, methods and functions.
#ifndef ROPEWAY_TOKENIZER_JINJA_BUILTIN_H_
#define ROPEWAY_TOKENIZER_JINJA_BUILTIN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// The arguments of a call as the template writes them.
struct CallArguments {
  List positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

// The arguments of a call by the parameters of what is called.
class Arguments {
 public:
  Arguments(const struct Builtin& builtin, CallArguments call);

  // Whether the parameter was given, and not as none.
  bool Has(size_t i) const { return i < slots_.size() && slots_[i] && !slots_[i]->is_none(); }
  bool Given(size_t i) const { return i < slots_.size() && slots_[i]; }
  const Value& operator[](size_t i) const { return *slots_[i]; }  // REQUIRES: Given(i).

  // Of a parameter's type, or what stands for one that was not given. `what`
  // names the caller in complaints: std::invalid_argument.
  const std::string& Text(size_t i, const char* what) const;
  int64_t Integer(size_t i, int64_t otherwise, const char* what) const;
  bool Flag(size_t i, bool otherwise) const;

  // What "..." takes, and "**".
  const List& rest() const { return rest_; }
  const std::vector<std::pair<std::string_view, Value>>& named() const { return named_; }

 private:
  std::vector<std::optional<Value>> slots_;
  List rest_;
  std::vector<std::pair<std::string_view, Value>> named_;
};

struct Builtin {
  std::string_view name;
  // The names of the parameters, with spaces between; "..." takes any more,
  // "**" any names.
  std::string_view parameters;
  size_t required;
  // Throws std::invalid_argument where the operand (of a filter or test, or
  // whose method it is) or an argument is none that it takes.
  Value (*apply)(Context& context, const Value& operand, const Arguments& arguments);
};

// Why `builtin` cannot be called with so many arguments and with these names;
// "" if it can.
std::string SignatureError(const Builtin& builtin, size_t positional,
                           const std::vector<std::string_view>& names);

// Complains that `value` is none that `what` takes; of what is missing, that it
// is.
[[noreturn]] void RefuseValue(const std::string& what, const Value& value);

// `value` as a string, or RefuseValue.
const std::string& StringOf(const char* what, const Value& value);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_BUILTIN_H_
