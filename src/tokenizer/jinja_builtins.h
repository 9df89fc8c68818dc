// The filters, tests and methods that templates may use. A template that names another one is
// refused when it is parsed.
#ifndef ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
#define ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja_value.h"

namespace ropeway::jinja {

// What one rendering may still spend. Each method throws std::length_error where it is too much.
class Budget {
 public:
  Budget(int64_t steps, size_t bytes) : steps_(steps), bytes_(bytes) {}
  void Step();
  // REQUIRES: called before the bytes are made.
  void Charge(size_t bytes);

 private:
  int64_t steps_;
  size_t bytes_;
};

using Arguments = std::vector<Value>;

struct Builtin {
  std::string_view name;
  size_t min_arguments;
  size_t max_arguments;
  // Throws std::invalid_argument where the operand or an argument is none that it takes.
  Value (*apply)(const Value& operand, const Arguments& arguments, Budget& budget);
};

// nullptr where there is none of this name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(std::string_view name);

// As {{ value }} and ~ write it. Throws std::invalid_argument for lists and dictionaries.
std::string ToText(const Value& value, Budget& budget);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
