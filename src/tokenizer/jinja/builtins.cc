#include "tokenizer/jinja/builtins.h"

#include <algorithm>
#include <array>

namespace ropeway::jinja {
namespace {

constexpr std::array<std::string_view, 8> kListChanges = {"append",  "clear", "extend", "insert",
                                                          "reverse", "sort",  "pop",    "remove"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};

const Builtin* FindIn(std::span<const Builtin> builtins, std::string_view name) {
  for (const Builtin& builtin : builtins) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

template <size_t kCount>
bool IsIn(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  for (const auto& filters : {TextFilters(), ListFilters(), NumberFilters()}) {
    if (const Builtin* found = FindIn(filters, name)) return found;
  }
  return nullptr;
}

const Builtin* FindTest(std::string_view name) { return FindIn(Tests(), name); }
const Builtin* FindFunction(std::string_view name) { return FindIn(Functions(), name); }

const Builtin* FindMethod(const Value& object, std::string_view name) {
  if (object.is_string()) return FindIn(StringMethods(), name);
  // "list.index" is the method "index" of lists.
  const std::string_view type = object.is_dict()   ? "dict."
                                : object.is_list() ? "list."
                                : object.is_loop() ? "loop."
                                                   : "";
  if (type.empty()) return nullptr;
  for (const Builtin& method : ContainerMethods()) {
    if (method.name.starts_with(type) && method.name.substr(type.size()) == name) return &method;
  }
  return nullptr;
}

bool IsMethod(std::string_view name) {
  const auto& methods = ContainerMethods();
  return FindIn(StringMethods(), name) != nullptr || IsIn(kListChanges, name) ||
         IsIn(kDictChanges, name) ||
         std::any_of(methods.begin(), methods.end(),
                     [&](const Builtin& method) { return method.name.substr(5) == name; });
}

bool IsForbiddenMethod(const Value& object, std::string_view name) {
  if (name.starts_with("__")) return true;
  if (object.is_dict()) return IsIn(kDictChanges, name);
  return object.is_list() && IsIn(kListChanges, name);
}

}  // namespace ropeway::jinja
