// Filters of lists, dictionaries and numbers, and the methods of lists, dictionaries and loops.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

Value Length(Context& context, const Value& operand, const Arguments&) {
  size_t length = 0;
  if (operand.is_string()) {
    context.Charge(operand.string().size());
    length = CountCharacters(operand.string());
  } else if (operand.is_list()) {
    length = operand.list().size();
  } else if (operand.is_dict()) {
    length = operand.dict().size();
  } else if (operand.is_loop()) {
    length = operand.loop().items.size();
  } else if (!operand.is_undefined()) {
    RejectValue("length", operand);
  }
  return Value::Of(static_cast<int64_t>(length));
}

Value Default(Context&, const Value& operand, const Arguments& arguments) {
  const bool falsy_too = arguments.Flag(1);
  if (!operand.is_undefined() && (!falsy_too || operand.Truth())) return operand;
  return arguments.Given(0) ? arguments[0] : Value::Of("");
}

template <bool kFirst>
Value EndItem(Context& context, const Value& operand, const Arguments&) {
  List made;
  if (!operand.is_list()) made = ToList(operand, context);
  const List& items = operand.is_list() ? operand.list() : made;
  if (items.empty())
    return Value::Absent(kFirst ? "there is no first item" : "there is no last item");
  return kFirst ? items.front() : items.back();
}

Value MakeList(Context& context, const Value& operand, const Arguments&) {
  return Value::Of(ToList(operand, context));
}

Value Items(Context& context, const Value& operand, const Arguments&) {
  if (operand.is_undefined()) return Value::Of(List());
  if (!operand.is_dict()) RejectValue("items", operand);
  context.Charge(operand.dict().size() * 4 * sizeof(Value));
  List items;
  for (const auto& [key, value] : operand.dict()) items.push_back(Value::Tuple({key, value}));
  return Value::Of(std::move(items));
}

Value Reverse(Context& context, const Value& operand, const Arguments&) {
  List items = ToList(operand, context);
  std::reverse(items.begin(), items.end());
  if (!operand.is_string()) return Value::Of(std::move(items));
  StrBuilder text(&context);
  for (const Value& character : items) text.Add(character.str());
  return context.Copy(text.Take());
}

// The key by which items are ordered and compared; text is case-insensitive unless asked otherwise.
class KeyOf {
 public:
  KeyOf(const Arguments& arguments, size_t case_sensitive, size_t attribute, Context& context)
      : arguments_(arguments),
        case_sensitive_(arguments.Flag(case_sensitive)),
        attribute_(attribute),
        context_(context) {}

  Value operator()(const Value& item) const {
    const bool by_attribute = arguments_.Has(attribute_);
    Value key = by_attribute ? AtPath(item, arguments_[attribute_], context_) : item;
    if (!key.is_string() || case_sensitive_) return key;
    context_.Charge(key.string().size());
    return context_.Copy(Lowercase(key.string()));
  }

 private:
  const Arguments& arguments_;
  const bool case_sensitive_;
  const size_t attribute_;
  Context& context_;
};

using Keyed = std::vector<std::pair<Value, Value>>;  // Each item with its key.

// Less, charged.
bool KeyLess(const Value& left, const Value& right, Context& context) {
  const bool texts = left.is_string() && right.is_string();
  context.Charge(texts ? std::min(left.string().size(), right.string().size()) + 1 : 1);
  return Less(left, right);
}

// Throws std::invalid_argument where two keys have no order.
void SortByKey(Keyed& items, bool reverse, Context& context) {
  for (const auto& [key, item] : items) {
    if (key.is_float() && std::isnan(key.number())) RejectValue("sort", key);
  }
  const auto less = [&](const auto& a, const auto& b) {
    return reverse ? KeyLess(b.first, a.first, context) : KeyLess(a.first, b.first, context);
  };
  // Python's is stable in reverse too.
  std::stable_sort(items.begin(), items.end(), less);
}

Keyed WithKeys(const Value& operand, const KeyOf& key_of, Context& context) {
  Keyed keyed;
  for (Value& item : ToList(operand, context)) {
    context.Step();
    Value key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

Value ItemsOf(Keyed&& keyed) {
  List items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::Of(std::move(items));
}

Value Sort(Context& context, const Value& operand, const Arguments& arguments) {
  Keyed keyed = WithKeys(operand, KeyOf(arguments, 1, 2, context), context);
  SortByKey(keyed, arguments.Flag(0), context);
  return ItemsOf(std::move(keyed));
}

Value DictSort(Context& context, const Value& operand, const Arguments& arguments) {
  if (!operand.is_dict()) RejectValue("dictsort", operand);
  const std::string by = arguments.Has(1) ? arguments.Text(1) : "key";
  if (by != "key" && by != "value") {
    Reject("the 'by' of dictsort must be 'key' or 'value'");
  }
  const KeyOf key_of(arguments, 0, 3, context);
  Keyed keyed;
  for (const auto& [key, value] : operand.dict()) {
    context.Step();
    keyed.emplace_back(key_of(by == "key" ? key : value), Value::Tuple({key, value}));
  }
  SortByKey(keyed, arguments.Flag(2), context);
  return ItemsOf(std::move(keyed));
}

Value Unique(Context& context, const Value& operand, const Arguments& arguments) {
  Keyed kept;
  for (auto& entry : WithKeys(operand, KeyOf(arguments, 0, 1, context), context)) {
    const bool is_known = std::any_of(kept.begin(), kept.end(), [&](const auto& known) {
      return Equal(known.first, entry.first, context);
    });
    if (!is_known) kept.push_back(std::move(entry));
  }
  return ItemsOf(std::move(kept));
}

template <bool kLargest>
Value Extreme(Context& context, const Value& operand, const Arguments& arguments) {
  const Keyed keyed = WithKeys(operand, KeyOf(arguments, 0, 1, context), context);
  if (keyed.empty()) return Value::Absent("an empty list has no smallest or largest item");
  const auto* best = &keyed[0];
  for (const auto& entry : keyed) {
    const Value& lesser = kLargest ? best->first : entry.first;
    if (KeyLess(lesser, kLargest ? entry.first : best->first, context)) best = &entry;
  }
  return best->second;
}

Value Sum(Context& context, const Value& operand, const Arguments& arguments) {
  Value sum = arguments.Given(1) ? arguments[1] : Value::Of(int64_t{0});
  for (const Value& item : ToList(operand, context)) {
    const Value part = arguments.Has(0) ? AtPath(item, arguments[0], context) : item;
    sum = Compute(ArithmeticOperator::kAdd, sum, part, context);
  }
  return sum;
}

Value Batch(Context& context, const Value& operand, const Arguments& arguments) {
  const int64_t size = arguments.Integer(0, 1);
  if (size < 1) Reject("the linecount of batch must be at least 1");
  List batches;
  List batch;
  for (Value& item : ToList(operand, context)) {
    if (static_cast<int64_t>(batch.size()) == size)
      batches.push_back(Value::Of(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (batch.empty()) return Value::Of(std::move(batches));
  if (arguments.Has(1)) {
    context.Charge(std::min(static_cast<size_t>(size), size_t{1} << 40U) * sizeof(Value));
    while (static_cast<int64_t>(batch.size()) < size) batch.push_back(arguments[1]);
  }
  batches.push_back(Value::Of(std::move(batch)));
  return Value::Of(std::move(batches));
}

// Calls the builtin that an argument names, with the arguments from `from` on.
class Named {
 public:
  Named(BuiltinKind kind, const Arguments& arguments, size_t from, const char* what)
      : arguments_(arguments), from_(from) {
    const Value& name = arguments.rest()[from];
    builtin_ = FindBuiltin(kind, StringOf(what, name));
    if (builtin_ == nullptr) {
      Reject(std::string(what) + ": '" + name.string() + "' is not supported");
    }
  }

  Value operator()(const Value& item, Context& context) const {
    // A filter that calls a filter passes one argument less on.
    const Context::Deeper deeper(context);
    context.Step();
    context.ChargeCopy((arguments_.rest().size() + arguments_.named().size()) * sizeof(Value));
    CallArguments call;
    call.positional.assign(arguments_.rest().begin() + static_cast<ptrdiff_t>(from_) + 1,
                           arguments_.rest().end());
    call.named = arguments_.named();
    return builtin_->apply(context, item, Arguments(*builtin_, std::move(call)));
  }

 private:
  const Arguments& arguments_;
  const size_t from_;
  const Builtin* builtin_;
};

Value Map(Context& context, const Value& operand, const Arguments& arguments) {
  if (!operand.Truth()) return Value::Of(List());  // For none too, as in Jinja.
  List items = ToList(operand, context);
  if (!arguments.rest().empty()) {
    const Named filter(kFilter, arguments, 0, "map");
    for (Value& item : items) item = filter(item, context);
    return Value::Of(std::move(items));
  }
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : arguments.named()) {
    if (name != "attribute" && name != "default") {
      Reject("map does not take an argument named '" + std::string(name) + "'");
    }
    (name == "attribute" ? attribute : otherwise) = &value;
  }
  if (attribute == nullptr) Reject("map needs a filter or an attribute");
  for (Value& item : items) {
    item = AtPath(item, *attribute, context);
    if (item.is_undefined() && otherwise != nullptr) item = *otherwise;
  }
  return Value::Of(std::move(items));
}

// select and so on: keeps the items that pass a test, by themselves or by an attribute.
template <bool kKeep, bool kByAttribute>
Value Choose(Context& context, const Value& operand, const Arguments& arguments) {
  if (!operand.Truth()) return Value::Of(List());
  constexpr size_t kTestAt = kByAttribute ? 1 : 0;
  if (arguments.rest().size() < kTestAt) Reject("selectattr and rejectattr need an attribute");
  std::optional<Named> test;
  if (arguments.rest().size() > kTestAt) test.emplace(kTest, arguments, kTestAt, "select");
  List chosen;
  for (Value& item : ToList(operand, context)) {
    context.Step();
    const Value part = kByAttribute ? AtPath(item, arguments.rest()[0], context) : item;
    const bool passes = test ? (*test)(part, context).Truth() : part.Truth();
    if (passes == kKeep) chosen.push_back(std::move(item));
  }
  return Value::Of(std::move(chosen));
}

constexpr double kMaxInteger = 9e18;

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  text = StripLeft(StripRight(text));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (text.find('_') != text.npos) Reject("'_' in a number is not supported");
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) Reject("a number is too large");
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Value Truncated(double number, const Value& otherwise) {
  if (!std::isfinite(number)) return otherwise;
  if (std::abs(number) > kMaxInteger) Reject("an integer is too large");
  return Value::Of(static_cast<int64_t>(number));
}

Value Int(Context& context, const Value& operand, const Arguments& arguments) {
  Value otherwise = arguments.Given(0) ? arguments[0] : Value::Of(int64_t{0});
  if (arguments.Integer(1, 10) != 10) Reject("int with a base other than 10 is not supported");
  if (operand.is_undefined()) RejectValue("int", operand);
  if (operand.is_integral()) return Value::Of(operand.integer());
  if (operand.is_float()) return Truncated(operand.number(), otherwise);
  if (!operand.is_string()) return otherwise;
  context.Charge(operand.string().size());
  if (const auto integer = ParseNumber<int64_t>(operand.string())) return Value::Of(*integer);
  const auto number = ParseNumber<double>(operand.string());
  return number ? Truncated(*number, otherwise) : otherwise;
}

Value Float(Context& context, const Value& operand, const Arguments& arguments) {
  if (operand.is_undefined()) RejectValue("float", operand);
  if (operand.is_number()) return Value::Of(operand.number());
  if (operand.is_string()) {
    context.Charge(operand.string().size());
    if (const auto number = ParseNumber<double>(operand.string())) return Value::Of(*number);
  }
  return arguments.Given(0) ? arguments[0] : Value::Of(0.0);
}

Value Abs(Context&, const Value& operand, const Arguments&) {
  if (operand.is_float()) return Value::Of(std::abs(operand.number()));
  if (!operand.is_integral()) RejectValue("abs", operand);
  int64_t result = operand.integer();
  if (result < 0 && __builtin_sub_overflow(int64_t{0}, result, &result)) {
    Reject("an integer is too large");
  }
  return Value::Of(result);
}

Value Round(Context&, const Value& operand, const Arguments& arguments) {
  constexpr int64_t kMaxPrecision = 100;
  const int64_t precision = arguments.Integer(0, 0);
  const std::string method = arguments.Has(1) ? arguments.Text(1) : "common";
  if (!operand.is_number()) RejectValue("round", operand);
  if (method != "common" || precision < 0 || precision > kMaxPrecision) {
    Reject("round supports only the method 'common' and a precision of 0 to " +
           std::to_string(kMaxPrecision));
  }
  if (operand.is_integral()) return Value::Of(operand.integer());
  if (!std::isfinite(operand.number())) return operand;
  // As in Python: to the nearest decimal, where a tie of the exact value goes to the even digit.
  std::array<char, 512> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), operand.number(),
                                     std::chars_format::fixed, static_cast<int>(precision));
  double rounded = 0;
  std::from_chars(buffer.data(), written.ptr, rounded);
  return Value::Of(rounded);
}

Value Get(Context& context, const Value& operand, const Arguments& arguments) {
  const Value& key = arguments[0];
  if (key.is_list() || key.is_dict()) Reject("a key must not be a list or a dictionary");
  const Value* value = FindKey(operand, key, context);
  if (value != nullptr) return *value;
  return arguments.Given(1) ? arguments[1] : Value();
}

Value Values(Context& context, const Value& operand, const Arguments&) {
  context.Charge(operand.dict().size() * sizeof(Value));
  List values;
  for (const auto& entry : operand.dict()) values.push_back(entry.second);
  return Value::Of(std::move(values));
}

Value Copy(Context&, const Value& operand, const Arguments&) { return operand; }

Value IndexOf(Context& context, const Value& operand, const Arguments& arguments) {
  const List& items = operand.list();
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equal(items[i], arguments[0], context)) return Value::Of(static_cast<int64_t>(i));
  }
  Reject("the item is not in the list");
}

Value CountItems(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(static_cast<int64_t>(
      std::count_if(operand.list().begin(), operand.list().end(),
                    [&](const Value& item) { return Equal(item, arguments[0], context); })));
}

Value Cycle(Context&, const Value& operand, const Arguments& arguments) {
  if (arguments.rest().empty()) Reject("loop.cycle needs arguments");
  return arguments.rest()[operand.loop().at % arguments.rest().size()];
}

constexpr Builtin kListBuiltins[] = {
    {"length", kFilter, "", 0, Length},
    {"count", kFilter, "", 0, Length},
    {"default", kFilter, "default_value boolean", 0, Default},
    {"d", kFilter, "default_value boolean", 0, Default},
    {"first", kFilter, "", 0, EndItem<true>},
    {"last", kFilter, "", 0, EndItem<false>},
    {"list", kFilter, "", 0, MakeList},
    {"items", kFilter | kDictMethod, "", 0, Items},
    {"reverse", kFilter, "", 0, Reverse},
    {"sort", kFilter, "reverse case_sensitive attribute", 0, Sort},
    {"dictsort", kFilter, "case_sensitive by reverse", 0, DictSort},
    {"unique", kFilter, "case_sensitive attribute", 0, Unique},
    {"min", kFilter, "case_sensitive attribute", 0, Extreme<false>},
    {"max", kFilter, "case_sensitive attribute", 0, Extreme<true>},
    {"sum", kFilter, "attribute start", 0, Sum},
    {"batch", kFilter, "linecount fill_with", 1, Batch},
    {"map", kFilter, "... **", 0, Map},
    {"select", kFilter, "... **", 0, Choose<true, false>},
    {"reject", kFilter, "... **", 0, Choose<false, false>},
    {"selectattr", kFilter, "... **", 0, Choose<true, true>},
    {"rejectattr", kFilter, "... **", 0, Choose<false, true>},
    {"int", kFilter, "default base", 0, Int},
    {"float", kFilter, "default", 0, Float},
    {"abs", kFilter, "", 0, Abs},
    {"round", kFilter, "precision method", 0, Round},
    {"get", kDictMethod, "key default", 1, Get},
    {"keys", kDictMethod, "", 0, MakeList},
    {"values", kDictMethod, "", 0, Values},
    {"copy", kDictMethod | kListMethod, "", 0, Copy},
    {"index", kListMethod, "value", 1, IndexOf},
    {"count", kListMethod, "value", 1, CountItems},
    {"cycle", kLoopMethod, "...", 0, Cycle},
};

}  // namespace

std::span<const Builtin> ListBuiltins() { return kListBuiltins; }

}  // namespace ropeway::tokenizer::jinja
