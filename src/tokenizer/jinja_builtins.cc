#include "tokenizer/jinja_builtins.h"

#include <stdexcept>

namespace ropeway::jinja {
namespace {

[[noreturn]] void Refuse(const std::string& what, const Value& value) {
  if (value.is_undefined())
    throw std::invalid_argument("'" + value.missing_name() + "' is undefined");
  throw std::invalid_argument(what + " does not take " + value.TypeName());
}

const std::string& StringOf(const char* what, const Value& value) {
  if (!value.is_string()) Refuse(what, value);
  return value.string();
}

Value Copy(std::string_view text, Budget& budget) {
  budget.Charge(text.size());
  return Value::Of(std::string(text));
}

// The first or last element, or what is missing.
Value End(const char* what, const Value& operand, bool first) {
  if (operand.is_string()) {
    const std::vector<std::string_view> characters = Characters(operand.string());
    if (characters.empty()) return Value::Missing(what);
    return Value::Of(std::string(first ? characters.front() : characters.back()));
  }
  if (!operand.is_list()) Refuse(what, operand);
  if (operand.list().empty()) return Value::Missing(what);
  return first ? operand.list().front() : operand.list().back();
}

// str.strip() and its like; with an argument, of the characters in it.
Value Strip(const Value& operand, const Arguments& arguments, Budget& budget, bool left,
            bool right) {
  std::string_view text = StringOf("strip", operand);
  if (arguments.empty() || arguments[0].is_none()) {
    if (left) text = StripLeft(text);
    if (right) text = StripRight(text);
    return Copy(text, budget);
  }
  const std::string& set = StringOf("strip", arguments[0]);
  budget.Charge(text.size());
  const std::vector<std::string_view> unwanted = Characters(set);
  const auto is_unwanted = [&](std::string_view character) {
    for (const std::string_view other : unwanted) {
      if (other == character) return true;
    }
    return false;
  };
  const std::vector<std::string_view> characters = Characters(text);
  size_t begin = 0;
  size_t end = characters.size();
  while (left && begin < end && is_unwanted(characters[begin]))
    text.remove_prefix(characters[begin++].size());
  while (right && end > begin && is_unwanted(characters[end - 1]))
    text.remove_suffix(characters[--end].size());
  return Copy(text, budget);
}

// Filters.

Value Trim(const Value& operand, const Arguments& arguments, Budget& budget) {
  if (operand.is_string()) return Strip(operand, arguments, budget, true, true);
  return Strip(Value::Of(ToText(operand, budget)), arguments, budget, true, true);
}

Value Length(const Value& operand, const Arguments&, Budget& budget) {
  size_t length = 0;
  if (operand.is_string()) {
    budget.Charge(operand.string().size());
    length = Characters(operand.string()).size();
  } else if (operand.is_list()) {
    length = operand.list().size();
  } else if (operand.is_dict()) {
    length = operand.dict().size();
  } else if (!operand.is_undefined()) {
    Refuse("length", operand);
  }
  return Value::Of(static_cast<int64_t>(length));
}

Value Default(const Value& operand, const Arguments& arguments, Budget&) {
  const bool falsy_too = arguments.size() > 1 && arguments[1].Truth();
  if (!operand.is_undefined() && (!falsy_too || operand.Truth())) return operand;
  return arguments.empty() ? Value::Of(std::string()) : arguments[0];
}

Value Join(const Value& operand, const Arguments& arguments, Budget& budget) {
  const std::string separator = arguments.empty() ? "" : ToText(arguments[0], budget);
  std::string text;
  bool first = true;
  const auto add = [&](std::string_view part) {
    budget.Charge(part.size() + separator.size());
    if (!first) text += separator;
    first = false;
    text += part;
  };
  if (operand.is_string()) {
    for (const std::string_view character : Characters(operand.string())) add(character);
  } else if (operand.is_list()) {
    for (const Value& item : operand.list()) add(ToText(item, budget));
  } else if (!operand.is_undefined()) {
    Refuse("join", operand);
  }
  return Value::Of(std::move(text));
}

Value First(const Value& operand, const Arguments&, Budget&) { return End("first", operand, true); }
Value Last(const Value& operand, const Arguments&, Budget&) { return End("last", operand, false); }

Value String(const Value& operand, const Arguments&, Budget& budget) {
  return operand.is_string() ? operand : Value::Of(ToText(operand, budget));
}

// Tests.

template <bool (*kHolds)(const Value&)>
Value Holds(const Value& operand, const Arguments&, Budget&) {
  return Value::Of(kHolds(operand));
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsInteger(const Value& v) { return v.is_integer(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.Truth(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.Truth(); }
bool IsMapping(const Value& v) { return v.is_dict(); }
// In Python what has a length and items is a sequence for Jinja, so a dictionary and Undefined too.
bool IsIterable(const Value& v) { return !v.is_none() && !v.is_number(); }

// Methods.

Value StripBoth(const Value& operand, const Arguments& arguments, Budget& budget) {
  return Strip(operand, arguments, budget, true, true);
}
Value StripOnlyLeft(const Value& operand, const Arguments& arguments, Budget& budget) {
  return Strip(operand, arguments, budget, true, false);
}
Value StripOnlyRight(const Value& operand, const Arguments& arguments, Budget& budget) {
  return Strip(operand, arguments, budget, false, true);
}
Value StartsWith(const Value& operand, const Arguments& arguments, Budget&) {
  return Value::Of(
      StringOf("startswith", operand).starts_with(StringOf("startswith", arguments[0])));
}
Value EndsWith(const Value& operand, const Arguments& arguments, Budget&) {
  return Value::Of(StringOf("endswith", operand).ends_with(StringOf("endswith", arguments[0])));
}
Value Get(const Value& operand, const Arguments& arguments, Budget&) {
  if (!operand.is_dict()) Refuse("get", operand);
  const Value* value = operand.Find(StringOf("get", arguments[0]));
  if (value != nullptr) return *value;
  return arguments.size() > 1 ? arguments[1] : Value();
}

constexpr Builtin kFilters[] = {
    {"trim", 0, 1, Trim},       {"length", 0, 0, Length}, {"count", 0, 0, Length},
    {"default", 0, 2, Default}, {"d", 0, 2, Default},     {"join", 0, 1, Join},
    {"first", 0, 0, First},     {"last", 0, 0, Last},     {"string", 0, 0, String},
};

constexpr Builtin kTests[] = {
    {"defined", 0, 0, Holds<IsDefined>},   {"undefined", 0, 0, Holds<IsUndefined>},
    {"none", 0, 0, Holds<IsNone>},         {"string", 0, 0, Holds<IsString>},
    {"number", 0, 0, Holds<IsNumber>},     {"integer", 0, 0, Holds<IsInteger>},
    {"boolean", 0, 0, Holds<IsBoolean>},   {"true", 0, 0, Holds<IsTrue>},
    {"false", 0, 0, Holds<IsFalse>},       {"mapping", 0, 0, Holds<IsMapping>},
    {"iterable", 0, 0, Holds<IsIterable>}, {"sequence", 0, 0, Holds<IsIterable>},
};

constexpr Builtin kMethods[] = {
    {"strip", 0, 1, StripBoth},       {"lstrip", 0, 1, StripOnlyLeft},
    {"rstrip", 0, 1, StripOnlyRight}, {"startswith", 1, 1, StartsWith},
    {"endswith", 1, 1, EndsWith},     {"get", 1, 2, Get},
};

template <size_t kCount>
const Builtin* FindIn(const Builtin (&builtins)[kCount], std::string_view name) {
  for (const Builtin& builtin : builtins) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

}  // namespace

void Budget::Step() {
  if (--steps_ < 0) throw std::length_error("the template takes too many steps");
}

void Budget::Charge(size_t bytes) {
  if (bytes > bytes_) throw std::length_error("the template makes too much text");
  bytes_ -= bytes;
}

const Builtin* FindFilter(std::string_view name) { return FindIn(kFilters, name); }
const Builtin* FindTest(std::string_view name) { return FindIn(kTests, name); }
const Builtin* FindMethod(std::string_view name) { return FindIn(kMethods, name); }

std::string ToText(const Value& value, Budget& budget) {
  if (value.is_string()) {
    budget.Charge(value.string().size());
    return value.string();
  }
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.Truth() ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.number());
  throw std::invalid_argument(std::string("to write ") + value.TypeName() +
                              " as text is not supported");
}

}  // namespace ropeway::jinja
