#include "tokenizer/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/characters.h"

namespace ropeway::jinja {
namespace {

// Comparing so many keys or names costs as much as a byte.
constexpr size_t kLooksPerByte = 16;
// In bytes. Values may be shared by many lists, so each comparison counts.
constexpr size_t kComparisonCost = 16;

[[noreturn]] void Refuse(const std::string& message) { throw std::invalid_argument(message); }

void RequireDefined(const Value& value) {
  if (value.is_undefined()) Refuse(value.why());
}

// "loop.index" and its like.
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
  // Of a loop that is not recursive.
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

// What Python's getattr() finds, or nothing.
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
    if (object.is_safe()) Refuse("methods of a safe text are not supported");
    return Value::Of(Callable{method, object});
  }
  if (IsForbiddenMethod(object, name)) {
    return Value::Absent("access to '" + std::string(name) + "' of " + object.TypeName() +
                         " is unsafe: a template may not change it");
  }
  if (object.is_callable()) Refuse("the attributes of a macro are not supported");
  return std::nullopt;
}

Value NoAttribute(const Value& object, std::string_view name) {
  return Value::Absent("'" + std::string(name) + "' is undefined: " + object.TypeName() +
                       " has no such attribute");
}

// The item that Python's object[key] finds, or nothing.
std::optional<Value> PythonItem(const Value& object, const Value& key, Context& context) {
  if (object.is_dict()) {
    const Value* value = FindKey(object, key, context);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  if (!key.is_integral() || !(object.is_list() || object.is_string())) return std::nullopt;
  const int64_t index = key.integer();
  if (object.is_string()) {
    context.Charge(object.string().size());
    const std::vector<std::string_view> characters = Characters(object.string());
    const auto count = static_cast<int64_t>(characters.size());
    if (index < -count || index >= count) return std::nullopt;
    return Value::Of(characters[static_cast<size_t>(index < 0 ? index + count : index)]);
  }
  const auto count = static_cast<int64_t>(object.list().size());
  if (index < -count || index >= count) return std::nullopt;
  return object.list()[static_cast<size_t>(index < 0 ? index + count : index)];
}

// The indices that Python's slice(from, to, step) takes from `count` elements.
std::vector<size_t> SliceIndices(std::optional<int64_t> from, std::optional<int64_t> to,
                                 int64_t step, int64_t count) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? count : count - 1;
  const auto place = [&](std::optional<int64_t> index, int64_t absent) {
    if (!index) return absent;
    return std::clamp(*index < 0 ? *index + count : *index, low, high);
  };
  std::vector<size_t> indices;
  const int64_t end = place(to, step > 0 ? high : low);
  int64_t i = place(from, step > 0 ? low : high);
  while (step > 0 ? i < end : i > end) {
    indices.push_back(static_cast<size_t>(i));
    if (step > count || step < -count) break;
    i += step;
  }
  return indices;
}

bool Contains(const Value& container, const Value& value, Context& context) {
  if (container.is_string()) {
    if (!value.is_string()) {
      RequireDefined(value);
      Refuse(std::string("'in' a string takes a string, not ") + value.TypeName());
    }
    context.Charge(container.string().size());
    return FindText(container.string(), value.string()) != std::string::npos;
  }
  if (container.is_list()) {
    return std::any_of(container.list().begin(), container.list().end(),
                       [&](const Value& item) { return Equal(item, value, context); });
  }
  if (container.is_dict()) {
    if (value.is_list() || value.is_dict()) Refuse("a key is a list or a dictionary");
    return FindKey(container, value, context) != nullptr;
  }
  if (container.is_undefined()) return false;
  Refuse(std::string("'in' is not possible with ") + container.TypeName());
}

}  // namespace

bool Equal(const Value& left, const Value& right, Context& context) {
  context.Charge(kComparisonCost);
  if (left.is_integral() && right.is_integral()) return left.integer() == right.integer();
  if (left.is_number() && right.is_number()) return left.number() == right.number();
  if (left.is_string() && right.is_string()) {
    context.Charge(std::min(left.string().size(), right.string().size()));
    return left.string() == right.string();
  }
  if (left.is_list() && right.is_list()) {
    return left.is_tuple() == right.is_tuple() && left.list().size() == right.list().size() &&
           std::equal(left.list().begin(), left.list().end(), right.list().begin(),
                      [&](const Value& a, const Value& b) { return Equal(a, b, context); });
  }
  if (left.is_dict() && right.is_dict()) {
    if (left.dict().size() != right.dict().size()) return false;
    return std::all_of(left.dict().begin(), left.dict().end(), [&](const auto& entry) {
      const Value* value = FindKey(right, entry.first, context);
      return value != nullptr && Equal(entry.second, *value, context);
    });
  }
  if (left.is_namespace() && right.is_namespace()) return &left.space() == &right.space();
  if (left.is_callable() || left.is_loop() || right.is_callable() || right.is_loop()) {
    Refuse(std::string("to compare ") + left.TypeName() + " with " + right.TypeName() +
           " is not supported");
  }
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool Less(const Value& left, const Value& right) {
  RequireDefined(left);
  RequireDefined(right);
  if (left.is_string() && right.is_string()) return left.string() < right.string();
  if (left.is_integral() && right.is_integral()) return left.integer() < right.integer();
  if (!left.is_number() || !right.is_number()) {
    Refuse(std::string("to order ") + left.TypeName() + " and " + right.TypeName() +
           " is not supported");
  }
  return left.number() < right.number();
}

bool Compare(ComparisonOperator op, const Value& left, const Value& right, Context& context) {
  if (left.is_string() && right.is_string()) {
    context.Charge(std::min(left.string().size(), right.string().size()));
  }
  const bool has_nan = (left.is_float() && std::isnan(left.number())) ||
                       (right.is_float() && std::isnan(right.number()));
  switch (op) {
    case ComparisonOperator::kEqual:
      return Equal(left, right, context);
    case ComparisonOperator::kNotEqual:
      return !Equal(left, right, context);
    case ComparisonOperator::kIn:
      return Contains(right, left, context);
    case ComparisonOperator::kNotIn:
      return !Contains(right, left, context);
    case ComparisonOperator::kLess:
      return Less(left, right);
    case ComparisonOperator::kLessEqual:
      return !Less(right, left) && !has_nan;
    case ComparisonOperator::kGreater:
      return Less(right, left);
    case ComparisonOperator::kGreaterEqual:
      return !Less(left, right) && !has_nan;
  }
  return false;
}

List ToList(const Value& value, Context& context) {
  if (value.is_undefined()) return {};
  List items;
  if (value.is_list()) {
    context.Charge(value.list().size() * sizeof(Value));
    items = value.list();
  } else if (value.is_dict()) {
    context.Charge(value.dict().size() * sizeof(Value));
    for (const auto& entry : value.dict()) items.push_back(entry.first);
  } else if (value.is_string()) {
    for (const std::string_view c : Characters(value.string())) items.push_back(context.Copy(c));
  } else {
    Refuse(std::string("a loop over ") + value.TypeName() + " is not possible");
  }
  return items;
}

const Value* FindKey(const Value& dict, const Value& key, Context& context) {
  context.Charge(dict.dict().size() / kLooksPerByte);
  if (key.is_string()) return dict.Find(key.string());
  for (const auto& [known, value] : dict.dict()) {
    if (!known.is_string() && Equal(known, key, context)) return &value;
  }
  return nullptr;
}

void SetKey(Dict& dict, const Value& key, Value value, Context& context) {
  context.Charge(2 * sizeof(Value) + dict.size() / kLooksPerByte);
  if (!key.is_string() && !key.is_number() && !key.is_none()) {
    RequireDefined(key);
    Refuse(std::string("a dictionary's key that is ") + key.TypeName() + " is not supported");
  }
  const auto known = std::find_if(dict.begin(), dict.end(), [&](const auto& entry) {
    return key.is_string() == entry.first.is_string() &&
           (key.is_string() ? key.string() == entry.first.string()
                            : Equal(key, entry.first, context));
  });
  if (known != dict.end()) {
    known->second = std::move(value);
  } else {
    dict.emplace_back(key, std::move(value));
  }
}

Value AttributeOf(const Value& object, std::string_view name, Context& context) {
  RequireDefined(object);
  if (std::optional<Value> found = PythonAttribute(object, name)) return *std::move(found);
  if (object.is_dict()) {
    context.Charge(object.dict().size() / kLooksPerByte);
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

Value SliceOf(const Value& object, std::optional<int64_t> from, std::optional<int64_t> to,
              int64_t step, Context& context) {
  RequireDefined(object);
  if (step == 0) Refuse("the step of a slice is 0");
  if (object.is_string() && !object.is_safe()) {
    context.Charge(object.string().size());
    const std::vector<std::string_view> characters = Characters(object.string());
    std::string text;
    for (const size_t i : SliceIndices(from, to, step, static_cast<int64_t>(characters.size()))) {
      text += characters[i];
    }
    return context.Copy(text);
  }
  if (!object.is_list())
    Refuse(std::string("a slice of ") + object.TypeName() + " is not possible");
  const List& items = object.list();
  List chosen;
  for (const size_t i : SliceIndices(from, to, step, static_cast<int64_t>(items.size()))) {
    chosen.push_back(items[i]);
  }
  context.Charge(chosen.size() * sizeof(Value));
  return object.is_tuple() ? Value::Tuple(std::move(chosen)) : Value::Of(std::move(chosen));
}

}  // namespace ropeway::jinja
