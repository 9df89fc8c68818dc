// Filters of lists and dictionaries.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "tokenizer/jinja/attribute_path.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/characters.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/operators.h"

namespace ropeway::jinja {
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
    RefuseValue("length", operand);
  }
  return Value::Of(static_cast<int64_t>(length));
}

Value Default(Context&, const Value& operand, const Arguments& arguments) {
  const bool falsy_too = arguments.Flag(1, false);
  if (!operand.is_undefined() && (!falsy_too || operand.Truth())) return operand;
  return arguments.Given(0) ? arguments[0] : Value::Of("");
}

Value First(Context& context, const Value& operand, const Arguments&) {
  if (operand.is_list() && !operand.list().empty()) return operand.list().front();
  const List items = ToList(operand, context);
  return items.empty() ? Value::Absent("there is no first item") : items.front();
}

Value Last(Context& context, const Value& operand, const Arguments&) {
  if (operand.is_list() && !operand.list().empty()) return operand.list().back();
  const List items = ToList(operand, context);
  return items.empty() ? Value::Absent("there is no last item") : items.back();
}

Value MakeList(Context& context, const Value& operand, const Arguments&) {
  return Value::Of(ToList(operand, context));
}

Value Items(Context& context, const Value& operand, const Arguments&) {
  if (operand.is_undefined()) return Value::Of(List());
  if (!operand.is_dict()) RefuseValue("items", operand);
  context.Charge(operand.dict().size() * 4 * sizeof(Value));
  List items;
  for (const auto& [key, value] : operand.dict()) items.push_back(Value::Tuple({key, value}));
  return Value::Of(std::move(items));
}

Value Reverse(Context& context, const Value& operand, const Arguments&) {
  List items = ToList(operand, context);
  std::reverse(items.begin(), items.end());
  if (!operand.is_string()) return Value::Of(std::move(items));
  std::string text;
  for (const Value& character : items) text += character.string();
  return context.Copy(text);
}

// What items are ordered and told apart by: text without regard to case, unless
// asked.
class KeyOf {
 public:
  KeyOf(const Arguments& arguments, size_t case_sensitive, size_t attribute, Context& context)
      : arguments_(arguments),
        case_sensitive_(arguments.Flag(case_sensitive, false)),
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
    if (key.is_float() && std::isnan(key.number())) RefuseValue("sort", key);
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
  SortByKey(keyed, arguments.Flag(0, false), context);
  return ItemsOf(std::move(keyed));
}

Value DictSort(Context& context, const Value& operand, const Arguments& arguments) {
  if (!operand.is_dict()) RefuseValue("dictsort", operand);
  const std::string by = arguments.Has(1) ? arguments.Text(1, "dictsort") : "key";
  if (by != "key" && by != "value") {
    throw std::invalid_argument("dictsort sorts by 'key' or 'value'");
  }
  const KeyOf key_of(arguments, 0, 3, context);
  Keyed keyed;
  for (const auto& [key, value] : operand.dict()) {
    context.Step();
    keyed.emplace_back(key_of(by == "key" ? key : value), Value::Tuple({key, value}));
  }
  SortByKey(keyed, arguments.Flag(2, false), context);
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

Value Extreme(Context& context, const Value& operand, const Arguments& arguments, bool largest) {
  const Keyed keyed = WithKeys(operand, KeyOf(arguments, 0, 1, context), context);
  if (keyed.empty()) return Value::Absent("no item of an empty list is the smallest or largest");
  const auto* best = &keyed[0];
  for (const auto& entry : keyed) {
    const Value& lesser = largest ? best->first : entry.first;
    if (KeyLess(lesser, largest ? entry.first : best->first, context)) best = &entry;
  }
  return best->second;
}

Value Min(Context& context, const Value& operand, const Arguments& arguments) {
  return Extreme(context, operand, arguments, false);
}
Value Max(Context& context, const Value& operand, const Arguments& arguments) {
  return Extreme(context, operand, arguments, true);
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
  const int64_t size = arguments.Integer(0, 1, "batch");
  if (size < 1) throw std::invalid_argument("batch needs a size of at least 1");
  List batches;
  List batch;
  for (Value& item : ToList(operand, context)) {
    if (static_cast<int64_t>(batch.size()) == size)
      batches.push_back(Value::Of(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (batch.empty()) return Value::Of(std::move(batches));
  if (arguments.Has(1)) {
    context.Charge(static_cast<size_t>(size) > (size_t{1} << 40U)
                       ? size_t{1} << 45U
                       : static_cast<size_t>(size) * sizeof(Value));
    while (static_cast<int64_t>(batch.size()) < size) batch.push_back(arguments[1]);
  }
  batches.push_back(Value::Of(std::move(batch)));
  return Value::Of(std::move(batches));
}

// Calls the builtin that an argument names, with the arguments from `from` on.
class Named {
 public:
  Named(const Builtin* (*find)(std::string_view), const Arguments& arguments, size_t from,
        const char* what)
      : arguments_(arguments), from_(from) {
    const Value& name = arguments.rest()[from];
    builtin_ = find(StringOf(what, name));
    if (builtin_ == nullptr) {
      throw std::invalid_argument(std::string(what) + ": '" + name.string() + "' is not supported");
    }
  }

  Value operator()(const Value& item, Context& context) const {
    // A filter that calls a filter takes one argument less to it.
    const Context::Deeper deeper(context);
    context.Step();
    context.Charge((arguments_.rest().size() + arguments_.named().size()) * sizeof(Value));
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
  if (!operand.Truth()) return Value::Of(List());  // Of none too, as Jinja.
  List items = ToList(operand, context);
  if (!arguments.rest().empty()) {
    const Named filter(FindFilter, arguments, 0, "map");
    for (Value& item : items) item = filter(item, context);
    return Value::Of(std::move(items));
  }
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : arguments.named()) {
    if (name != "attribute" && name != "default") {
      throw std::invalid_argument("map does not take '" + std::string(name) + "'");
    }
    (name == "attribute" ? attribute : otherwise) = &value;
  }
  if (attribute == nullptr) throw std::invalid_argument("map needs a filter or an attribute");
  for (Value& item : items) {
    item = AtPath(item, *attribute, context);
    if (item.is_undefined() && otherwise != nullptr) item = *otherwise;
  }
  return Value::Of(std::move(items));
}

// select and its like: keeps the items that are as `keep` wants, by themselves
// or by an attribute.
Value Choose(Context& context, const Value& operand, const Arguments& arguments, bool keep,
             bool by_attribute) {
  if (!operand.Truth()) return Value::Of(List());
  const size_t test_at = by_attribute ? 1 : 0;
  if (arguments.rest().size() < test_at) throw std::invalid_argument("an attribute is missing");
  const bool has_test = arguments.rest().size() > test_at;
  std::optional<Named> test;
  if (has_test) test.emplace(FindTest, arguments, test_at, "select");
  List chosen;
  for (Value& item : ToList(operand, context)) {
    context.Step();
    const Value part = by_attribute ? AtPath(item, arguments.rest()[0], context) : item;
    const bool holds = has_test ? (*test)(part, context).Truth() : part.Truth();
    if (holds == keep) chosen.push_back(std::move(item));
  }
  return Value::Of(std::move(chosen));
}

template <bool kKeep, bool kByAttribute>
Value Chosen(Context& context, const Value& operand, const Arguments& arguments) {
  return Choose(context, operand, arguments, kKeep, kByAttribute);
}

constexpr std::array kFilters = {
    Builtin{"length", "", 0, Length},
    Builtin{"count", "", 0, Length},
    Builtin{"default", "default_value boolean", 0, Default},
    Builtin{"d", "default_value boolean", 0, Default},
    Builtin{"first", "", 0, First},
    Builtin{"last", "", 0, Last},
    Builtin{"list", "", 0, MakeList},
    Builtin{"items", "", 0, Items},
    Builtin{"reverse", "", 0, Reverse},
    Builtin{"sort", "reverse case_sensitive attribute", 0, Sort},
    Builtin{"dictsort", "case_sensitive by reverse", 0, DictSort},
    Builtin{"unique", "case_sensitive attribute", 0, Unique},
    Builtin{"min", "case_sensitive attribute", 0, Min},
    Builtin{"max", "case_sensitive attribute", 0, Max},
    Builtin{"sum", "attribute start", 0, Sum},
    Builtin{"batch", "linecount fill_with", 1, Batch},
    Builtin{"map", "... **", 0, Map},
    Builtin{"select", "... **", 0, Chosen<true, false>},
    Builtin{"reject", "... **", 0, Chosen<false, false>},
    Builtin{"selectattr", "... **", 0, Chosen<true, true>},
    Builtin{"rejectattr", "... **", 0, Chosen<false, true>},
};

}  // namespace

std::span<const Builtin> ListFilters() { return kFilters; }

}  // namespace ropeway::jinja
