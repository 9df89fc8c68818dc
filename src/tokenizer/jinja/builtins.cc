#include "tokenizer/jinja/builtins.h"

#include <algorithm>
#include <array>

#include "base/words.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

constexpr std::array<std::string_view, 8> kListChanges = {"append",  "clear", "extend", "insert",
                                                          "reverse", "sort",  "pop",    "remove"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};

bool IsIn(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Signature {
  explicit Signature(const Builtin& builtin) {
    std::string_view left = builtin.parameters;
    while (!left.empty()) {
      const size_t end = std::min(left.find(' '), left.size());
      const std::string_view word = left.substr(0, end);
      if (word == "...") {
        any_more = true;
      } else if (word == "**") {
        any_name = true;
      } else {
        names.push_back(word);
      }
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  }

  // The index of a parameter; the number of parameters if there is none of this name.
  size_t IndexOf(std::string_view name) const {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }

  std::vector<std::string_view> names;
  bool any_more = false;
  bool any_name = false;
};

// --- Functions.

Value Range(Context& context, const Value&, const Arguments& arguments) {
  constexpr int64_t kMaxItems = 100'000;  // The sandbox's own limit.
  const bool has_start = arguments.Has(1);
  const int64_t stop = arguments.Integer(has_start ? 1 : 0, 0);
  const int64_t step = arguments.Integer(2, 1);
  if (step == 0) Reject("the step of a range must not be 0");
  List items;
  int64_t at = has_start ? arguments.Integer(0, 0) : 0;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<int64_t>(items.size()) == kMaxItems) {
      Reject("a range must have at most 100000 items");
    }
    context.Charge(sizeof(Value));
    items.push_back(Value::Of(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::Of(std::move(items));
}

// The entries of the dictionary in the first argument, if there is one, and the named arguments.
Dict Entries(Context& context, const Arguments& arguments) {
  Dict entries;
  if (arguments.Given(0)) {
    if (!arguments[0].is_dict()) RejectValue("dict", arguments[0]);
    context.Charge(arguments[0].dict().size() * 2 * sizeof(Value));
    entries = arguments[0].dict();
  }
  for (const auto& [name, value] : arguments.named()) {
    SetKey(entries, Value::Of(name), value, context);
  }
  return entries;
}

Value MakeDict(Context& context, const Value&, const Arguments& arguments) {
  return Value::Of(Entries(context, arguments));
}

Value MakeNamespace(Context& context, const Value&, const Arguments& arguments) {
  Namespace* const space = context.NewNamespace();
  for (auto& [name, value] : Entries(context, arguments)) {
    context.Keep(sizeof(space->variables[0]));
    space->variables.emplace_back(ToText(name, context).text, std::move(value));
  }
  return Value::Of(space);
}

Value RaiseException(Context& context, const Value&, const Arguments& arguments) {
  throw Raised(0, ToText(arguments[0], context).text);
}

Value StrftimeNow(Context& context, const Value&, const Arguments& arguments) {
  const Str& format = arguments.StrAt(0);
  return context.Copy(MadeFrom(Strftime(format.text, context.now()), format));
}

// --- Tests.

template <bool (*kHolds)(const Value&)>
Value Is(Context&, const Value& operand, const Arguments&) {
  return Value::Of(kHolds(operand));
}
template <bool (Value::*kHolds)() const>
Value Is(Context&, const Value& operand, const Arguments&) {
  return Value::Of((operand.*kHolds)());
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.Truth(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.Truth(); }
// For Jinja every Python object with a length and items is a sequence: a dictionary and Undefined
// too.
bool IsSequenceLike(const Value& v) {
  return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
}
bool IsIterable(const Value& v) { return IsSequenceLike(v) || v.is_loop(); }

template <ComparisonOperator kOperator>
Value Compares(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(Compare(kOperator, operand, arguments[0], context));
}

Value DivisibleBy(Context& context, const Value& operand, const Arguments& arguments) {
  const Value rest = Compute(ArithmeticOperator::kModulo, operand, arguments[0], context);
  return Value::Of(rest.is_number() && rest.number() == 0);
}

template <bool kOdd>
Value HasParity(Context&, const Value& operand, const Arguments&) {
  if (!operand.is_integral()) RejectValue(kOdd ? "odd" : "even", operand);
  return Value::Of((operand.integer() % 2 != 0) == kOdd);
}

// Only of values that Python has one object of; for others it depends on the implementation.
Value SameAs(Context&, const Value& operand, const Arguments& arguments) {
  const Value& other = arguments[0];
  if (other.is_none()) return Value::Of(operand.is_none());
  if (!other.is_bool()) Reject("sameas supports only booleans and none");
  return Value::Of(operand.is_bool() && operand.Truth() == other.Truth());
}

// --- What a template finds in an object.

// The method of `object` by this name; nullptr: none.
const Builtin* FindMethod(const Value& object, std::string_view name) {
  const BuiltinKind kind = object.is_string() ? kStringMethod
                           : object.is_dict() ? kDictMethod
                           : object.is_list() ? kListMethod
                           : object.is_loop() ? kLoopMethod
                                              : BuiltinKind{};
  return kind == 0 ? nullptr : FindBuiltin(kind, name);
}

// Whether the method would change its list or dictionary, which the sandbox forbids.
bool IsForbiddenMethod(const Value& object, std::string_view name) {
  if (name.starts_with("__")) return true;
  if (object.is_dict()) return IsIn(kDictChanges, name);
  return object.is_list() && IsIn(kListChanges, name);
}

// "loop.index" and so on.
Value LoopAttribute(const Loop& loop, std::string_view name) {
  const auto count = static_cast<int64_t>(loop.items.size());
  const auto index = static_cast<int64_t>(loop.at);
  if (name == "index") return Value::Of(index + 1);
  if (name == "index0") return Value::Of(index);
  if (name == "revindex") return Value::Of(count - index);
  if (name == "revindex0") return Value::Of(count - index - 1);
  if (name == "first") return Value::Of(index == 0);
  if (name == "last") return Value::Of(index + 1 == count);
  if (name == "length") return Value::Of(count);
  // Loops are not recursive.
  if (name == "depth") return Value::Of(int64_t{1});
  if (name == "depth0") return Value::Of(int64_t{0});
  if (name == "previtem") {
    return index == 0 ? Value::Absent("there is no previous item") : loop.items[loop.at - 1];
  }
  if (name == "nextitem") {
    return index + 1 == count ? Value::Absent("there is no next item") : loop.items[loop.at + 1];
  }
  return Value::Missing("loop." + std::string(name));
}

// Python's getattr(), or nothing.
std::optional<Value> PythonAttribute(const Value& object, std::string_view name) {
  if (object.is_loop()) {
    Value value = LoopAttribute(object.loop(), name);
    if (!value.is_undefined() || name.ends_with("item")) return value;
  }
  if (object.is_namespace()) {
    for (const auto& [known, value] : object.space().variables) {
      if (known == name) return value;
    }
  }
  if (const Builtin* method = FindMethod(object, name)) {
    if (object.is_safe()) Reject("methods of a safe string are not supported");
    return Value::Of(Callable{method, object});
  }
  if (IsForbiddenMethod(object, name)) {
    return Value::Absent("access to '" + std::string(name) + "' of " + object.TypeName() +
                         " is unsafe: a template may not change it");
  }
  if (object.is_callable()) Reject("the attributes of a macro are not supported");
  return std::nullopt;
}

Value NoAttribute(const Value& object, std::string_view name) {
  return Value::Absent("'" + std::string(name) + "' is undefined: " + object.TypeName() +
                       " has no such attribute");
}

// Python's object[key], or nothing.
std::optional<Value> PythonItem(const Value& object, const Value& key, Context& context) {
  if (object.is_dict()) {
    const Value* value = FindKey(object, key, context);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  if (!key.is_integral() || !(object.is_list() || object.is_string())) return std::nullopt;
  const auto at = [&](const auto& items) -> std::optional<Value> {
    const auto count = static_cast<int64_t>(items.size());
    const int64_t index = key.integer() + (key.integer() < 0 ? count : 0);
    if (index < 0 || index >= count) return std::nullopt;
    if constexpr (std::is_same_v<decltype(items), const List&>) {
      return items[static_cast<size_t>(index)];
    } else {
      return Value::Of(PartOf(object.str(), items[static_cast<size_t>(index)]));
    }
  };
  if (object.is_list()) return at(object.list());
  context.Charge(object.string().size());
  return at(Characters(object.string()));
}

// --- The table.

constexpr Builtin kCoreBuiltins[] = {
    {"range", kFunction, "start stop step", 1, Range},
    {"dict", kFunction, "mapping **", 0, MakeDict},
    {"namespace", kFunction, "mapping **", 0, MakeNamespace},
    {"raise_exception", kFunction, "message", 1, RaiseException},
    {"strftime_now", kFunction, "format", 1, StrftimeNow},
    {"defined", kTest, "", 0, Is<IsDefined>},
    {"undefined", kTest, "", 0, Is<&Value::is_undefined>},
    {"none", kTest, "", 0, Is<&Value::is_none>},
    {"string", kTest, "", 0, Is<&Value::is_string>},
    {"number", kTest, "", 0, Is<&Value::is_number>},
    {"integer", kTest, "", 0, Is<&Value::is_integer>},
    {"float", kTest, "", 0, Is<&Value::is_float>},
    {"boolean", kTest, "", 0, Is<&Value::is_bool>},
    {"true", kTest, "", 0, Is<IsTrue>},
    {"false", kTest, "", 0, Is<IsFalse>},
    {"mapping", kTest, "", 0, Is<&Value::is_dict>},
    {"iterable", kTest, "", 0, Is<IsIterable>},
    {"sequence", kTest, "", 0, Is<IsSequenceLike>},
    {"callable", kTest, "", 0, Is<&Value::is_callable>},
    {"sameas", kTest, "other", 1, SameAs},
    {"divisibleby", kTest, "num", 1, DivisibleBy},
    {"even", kTest, "", 0, HasParity<false>},
    {"odd", kTest, "", 0, HasParity<true>},
    {"in", kTest, "seq", 1, Compares<ComparisonOperator::kIn>},
    {"==", kTest, "other", 1, Compares<ComparisonOperator::kEqual>},
    {"eq", kTest, "other", 1, Compares<ComparisonOperator::kEqual>},
    {"equalto", kTest, "other", 1, Compares<ComparisonOperator::kEqual>},
    {"!=", kTest, "other", 1, Compares<ComparisonOperator::kNotEqual>},
    {"ne", kTest, "other", 1, Compares<ComparisonOperator::kNotEqual>},
    {">", kTest, "other", 1, Compares<ComparisonOperator::kGreater>},
    {"gt", kTest, "other", 1, Compares<ComparisonOperator::kGreater>},
    {"greaterthan", kTest, "other", 1, Compares<ComparisonOperator::kGreater>},
    {">=", kTest, "other", 1, Compares<ComparisonOperator::kGreaterEqual>},
    {"ge", kTest, "other", 1, Compares<ComparisonOperator::kGreaterEqual>},
    {"<", kTest, "other", 1, Compares<ComparisonOperator::kLess>},
    {"lt", kTest, "other", 1, Compares<ComparisonOperator::kLess>},
    {"lessthan", kTest, "other", 1, Compares<ComparisonOperator::kLess>},
    {"<=", kTest, "other", 1, Compares<ComparisonOperator::kLessEqual>},
    {"le", kTest, "other", 1, Compares<ComparisonOperator::kLessEqual>},
};

}  // namespace

std::span<const Builtin> CoreBuiltins() { return kCoreBuiltins; }

const Builtin* FindBuiltin(unsigned kinds, std::string_view name) {
  for (const auto& builtins : {CoreBuiltins(), TextBuiltins(), ListBuiltins()}) {
    for (const Builtin& builtin : builtins) {
      if ((builtin.kinds & kinds) != 0 && builtin.name == name) return &builtin;
    }
  }
  return nullptr;
}

bool IsMethod(std::string_view name) {
  return FindBuiltin(kAnyMethod, name) != nullptr || IsIn(kListChanges, name) ||
         IsIn(kDictChanges, name);
}

std::string SignatureError(const Builtin& builtin, size_t positional,
                           const std::vector<std::string_view>& names) {
  const Signature signature(builtin);
  const size_t count = signature.names.size();
  if (positional > count && !signature.any_more) {
    return "does not take " + std::to_string(positional) + " arguments";
  }
  std::vector<bool> given(count);
  std::fill_n(given.begin(), std::min(positional, count), true);
  for (const std::string_view name : names) {
    const size_t i = signature.IndexOf(name);
    if (i == count && signature.any_name) continue;
    if (i == count) return "does not take an argument named '" + std::string(name) + "'";
    if (given[i]) return "takes '" + std::string(name) + "' only once";
    given[i] = true;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!given[i]) return "needs the argument '" + std::string(signature.names[i]) + "'";
  }
  return "";
}

Arguments::Arguments(const Builtin& builtin, CallArguments call) : builtin_(builtin) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : call.named) names.push_back(name);
  const std::string error = SignatureError(builtin, call.positional.size(), names);
  if (!error.empty()) Reject("'" + std::string(builtin.name) + "' " + error);

  const Signature signature(builtin);
  slots_.resize(signature.names.size());
  for (size_t i = 0; i < call.positional.size(); ++i) {
    if (i < slots_.size()) {
      slots_[i] = std::move(call.positional[i]);
    } else {
      rest_.push_back(std::move(call.positional[i]));
    }
  }
  for (auto& [name, value] : call.named) {
    const size_t i = signature.IndexOf(name);
    if (i < slots_.size()) {
      slots_[i] = std::move(value);
    } else {
      named_.emplace_back(name, std::move(value));
    }
  }
}

const Str& Arguments::StrAt(size_t i) const {
  if (!slots_[i]->is_string()) RejectValue(std::string(builtin_.name), *slots_[i]);
  return slots_[i]->str();
}

const std::string& Arguments::Text(size_t i) const {
  static const std::string kEmpty;
  return Has(i) ? String(i) : kEmpty;
}

int64_t Arguments::Integer(size_t i, int64_t otherwise) const {
  if (!Has(i)) return otherwise;
  if (!slots_[i]->is_integral()) RejectValue(std::string(builtin_.name), *slots_[i]);
  return slots_[i]->integer();
}

Value AttributeOf(const Value& object, std::string_view name, Context& context) {
  RequireDefined(object);
  if (std::optional<Value> found = PythonAttribute(object, name)) return *std::move(found);
  if (object.is_dict()) {
    context.ChargeLookups(object.dict().size());
    if (const Value* value = object.Find(name)) return *value;
  }
  return NoAttribute(object, name);
}

Value ItemOf(const Value& object, const Value& key, Context& context) {
  RequireDefined(object);
  if (std::optional<Value> found = PythonItem(object, key, context)) return *std::move(found);
  if (!key.is_string()) return Value::Absent("there is no such item");
  if (std::optional<Value> found = PythonAttribute(object, key.string())) return *std::move(found);
  return NoAttribute(object, key.string());
}

Value AtPath(const Value& item, const Value& path, Context& context) {
  if (path.is_integral()) return ItemOf(item, path, context);
  Value value = item;
  std::string_view left = StringOf("attribute", path);
  while (true) {
    const std::string_view part = left.substr(0, left.find('.'));
    context.Step();
    const int64_t index = base::ParseNumber<int64_t>(part).value_or(-1);
    value = ItemOf(value, index >= 0 ? Value::Of(index) : context.Copy(part), context);
    if (part.size() == left.size()) return value;
    left.remove_prefix(part.size() + 1);
  }
}

}  // namespace ropeway::tokenizer::jinja
