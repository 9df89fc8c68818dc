// The filters, tests, methods and functions that templates may use. A template
// that names another one is refused when it is parsed.
#ifndef ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
#define ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_

#include <span>
#include <string_view>

#include "tokenizer/jinja/builtin.h"

namespace ropeway::jinja {

// By the file that has them.
std::span<const Builtin> TextFilters();
std::span<const Builtin> ListFilters();
std::span<const Builtin> NumberFilters();
std::span<const Builtin> Tests();
std::span<const Builtin> StringMethods();
std::span<const Builtin> ContainerMethods();  // Of dictionaries, lists and loops.
std::span<const Builtin> Functions();

// nullptr where there is none of this name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindFunction(std::string_view name);
// The method that `object` has by this name.
const Builtin* FindMethod(const Value& object, std::string_view name);
// Whether any value has such a method.
bool IsMethod(std::string_view name);
// Whether it is one that would change its list or dictionary, which the sandbox
// forbids.
bool IsForbiddenMethod(const Value& object, std::string_view name);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_BUILTINS_H_
