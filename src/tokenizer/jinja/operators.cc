#include "tokenizer/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

// In bytes. Values may be shared by many lists, so each comparison counts.
constexpr size_t kComparisonCost = 16;
// To take a string apart, in bytes for each of its bytes.
constexpr size_t kCharacterCost = 4;

// The indices that Python's slice(from, to, step) takes from `count` elements.
std::vector<size_t> SliceIndices(std::optional<int64_t> from, std::optional<int64_t> to,
                                 int64_t step, int64_t count) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? count : count - 1;
  const auto bound = [&](std::optional<int64_t> index, int64_t absent) {
    if (!index) return absent;
    return std::clamp(*index < 0 ? *index + count : *index, low, high);
  };
  std::vector<size_t> indices;
  const int64_t end = bound(to, step > 0 ? high : low);
  int64_t i = bound(from, step > 0 ? low : high);
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
      Reject(std::string("'in' with a string needs a string on the left, got ") + value.TypeName());
    }
    context.Charge(container.string().size());
    return FindText(container.string(), value.string()) != std::string::npos;
  }
  if (container.is_list()) {
    return std::any_of(container.list().begin(), container.list().end(),
                       [&](const Value& item) { return Equal(item, value, context); });
  }
  if (container.is_dict()) {
    if (value.is_list() || value.is_dict()) Reject("a key must not be a list or a dictionary");
    return FindKey(container, value, context) != nullptr;
  }
  if (container.is_undefined()) return false;
  Reject(std::string("'in' does not take ") + container.TypeName());
}

constexpr char kTooLarge[] = "an integer is too large";

// By ArithmeticOperator.
std::string SignOf(ArithmeticOperator op) {
  constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSigns[static_cast<size_t>(op)];
}

// A list or tuple, as `like` is one.
Value LikeList(const Value& like, List items) {
  return like.is_tuple() ? Value::Tuple(std::move(items)) : Value::Of(std::move(items));
}

int64_t FloorDivide(int64_t left, int64_t right) {
  // The lowest integer has no opposite.
  if (right == -1 && left == std::numeric_limits<int64_t>::min()) Reject(kTooLarge);
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

int64_t Modulo(int64_t left, int64_t right) {
  return right == -1 ? 0 : left - FloorDivide(left, right) * right;
}

int64_t Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (exponent < 0) Reject("** with a negative exponent is not supported");
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) Reject(kTooLarge);
  }
  return result;
}

Value Integers(ArithmeticOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  const auto unless = [&](bool overflow) {
    if (overflow) Reject(kTooLarge);
    return Value::Of(result);
  };
  switch (op) {
    case ArithmeticOperator::kAdd:
      return unless(__builtin_add_overflow(a, b, &result));
    case ArithmeticOperator::kSubtract:
      return unless(__builtin_sub_overflow(a, b, &result));
    case ArithmeticOperator::kMultiply:
      return unless(__builtin_mul_overflow(a, b, &result));
    case ArithmeticOperator::kDivide:
      return Value::Of(static_cast<double>(a) / static_cast<double>(b));
    case ArithmeticOperator::kFloorDivide:
      return Value::Of(FloorDivide(a, b));
    case ArithmeticOperator::kModulo:
      return Value::Of(Modulo(a, b));
    case ArithmeticOperator::kPower:
      break;
  }
  return Value::Of(Power(a, b));
}

// Python's float % and //.
double Modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double FloorDivide(double a, double b) {
  const double quotient = (a - Modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value Floats(ArithmeticOperator op, double a, double b) {
  switch (op) {
    case ArithmeticOperator::kAdd:
      return Value::Of(a + b);
    case ArithmeticOperator::kSubtract:
      return Value::Of(a - b);
    case ArithmeticOperator::kMultiply:
      return Value::Of(a * b);
    case ArithmeticOperator::kDivide:
      return Value::Of(a / b);
    case ArithmeticOperator::kFloorDivide:
      return Value::Of(FloorDivide(a, b));
    case ArithmeticOperator::kModulo:
      return Value::Of(Modulo(a, b));
    case ArithmeticOperator::kPower:
      break;
  }
  // The C library's pow differs by version.
  Reject("** of floats is not supported");
}

Value Repeat(const Value& sequence, int64_t count, Context& context) {
  if (count < 0) count = 0;
  const size_t size =
      sequence.is_string() ? sequence.string().size() : sequence.list().size() * sizeof(Value);
  size_t total = 0;
  if (__builtin_mul_overflow(size, static_cast<size_t>(count), &total)) {
    throw std::length_error("the template produces too much text");
  }
  context.Charge(total);
  if (size == 0) count = 0;
  if (sequence.is_string()) {
    StrBuilder text(&context);
    for (int64_t i = 0; i < count; ++i) text.Add(sequence.str());
    return Value::Of(text.Take());
  }
  List items;
  for (int64_t i = 0; i < count; ++i) {
    items.insert(items.end(), sequence.list().begin(), sequence.list().end());
  }
  return LikeList(sequence, std::move(items));
}

bool IsSequence(const Value& value) { return value.is_string() || value.is_list(); }

// + * % of strings and lists; nothing where they are not defined.
std::optional<Value> Sequences(ArithmeticOperator op, const Value& left, const Value& right,
                               Context& context) {
  if (op == ArithmeticOperator::kAdd && left.is_string() && right.is_string()) {
    context.ChargeCopy(left.string().size() + right.string().size());
    StrBuilder text(&context);
    text.Add(left.str());
    text.Add(right.str());
    return Value::Of(text.Take());
  }
  if (op == ArithmeticOperator::kAdd && left.is_list() && right.is_list() &&
      left.is_tuple() == right.is_tuple()) {
    List items = ToList(left, context);
    context.ChargeCopy(right.list().size() * sizeof(Value));
    items.insert(items.end(), right.list().begin(), right.list().end());
    return LikeList(left, std::move(items));
  }
  if (op == ArithmeticOperator::kMultiply && IsSequence(left) && right.is_integral()) {
    return Repeat(left, right.integer(), context);
  }
  if (op == ArithmeticOperator::kMultiply && IsSequence(right) && left.is_integral()) {
    return Repeat(right, left.integer(), context);
  }
  if (op == ArithmeticOperator::kModulo && left.is_string()) {
    return Value::Of(FormatPercent(left.str(), right, context));
  }
  return std::nullopt;
}

// `str` for a text that is safe: HTML is escaped, even where nothing else escapes it.
Str Escaped(const Str& str, Context& context) {
  StrBuilder text(&context);
  const std::string_view from = str.text;
  size_t plain = 0;
  for (size_t at = from.find_first_of("&<>'\""); at != from.npos;
       at = from.find_first_of("&<>'\"", plain)) {
    text.AddPart(str, from.substr(plain, at - plain));
    const std::string_view escape = from[at] == '&'    ? "&amp;"
                                    : from[at] == '<'  ? "&lt;"
                                    : from[at] == '>'  ? "&gt;"
                                    : from[at] == '\'' ? "&#39;"
                                                       : "&#34;";
    context.Charge(escape.size());
    text.Add(escape, AnyQuoted(str, from.substr(at, 1)));
    plain = at + 1;
  }
  text.AddPart(str, from.substr(plain));
  return text.Take();
}

// left + right where one is safe: the other is escaped.
Value AddSafe(const Value& left, const Value& right, Context& context) {
  context.Charge(left.string().size() + right.string().size());
  StrBuilder text(&context);
  for (const Value* value : {&left, &right}) {
    text.Add(value->is_safe() ? value->str() : Escaped(value->str(), context));
  }
  return Value::Safe(text.Take());
}

}  // namespace

Value Compute(ArithmeticOperator op, const Value& left, const Value& right, Context& context) {
  if (left.is_safe() || right.is_safe()) {
    if (op == ArithmeticOperator::kAdd && left.is_string() && right.is_string()) {
      return AddSafe(left, right, context);
    }
    Reject(SignOf(op) + " of a safe string is not supported: it would escape HTML");
  }
  if (left.is_number() && right.is_number()) {
    const bool divides = op == ArithmeticOperator::kDivide ||
                         op == ArithmeticOperator::kFloorDivide ||
                         op == ArithmeticOperator::kModulo;
    if (divides && right.number() == 0) Reject("division by 0");
    if (left.is_integral() && right.is_integral()) {
      return Integers(op, left.integer(), right.integer());
    }
    return Floats(op, left.number(), right.number());
  }
  if (std::optional<Value> value = Sequences(op, left, right, context)) return *std::move(value);
  RequireDefined(left);
  RequireDefined(right);
  Reject(SignOf(op) + " is not supported between " + left.TypeName() + " and " + right.TypeName());
}

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
    Reject(std::string("comparing ") + left.TypeName() + " with " + right.TypeName() +
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
    Reject(std::string("ordering ") + left.TypeName() + " and " + right.TypeName() +
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
    context.ChargeCopy(value.list().size() * sizeof(Value));
    items = value.list();
  } else if (value.is_dict()) {
    context.Charge(value.dict().size() * sizeof(Value));
    for (const auto& entry : value.dict()) items.push_back(entry.first);
  } else if (value.is_string()) {
    for (const std::string_view c : Characters(value.string())) {
      items.push_back(context.Copy(value.str(), c));
    }
  } else {
    Reject(std::string("cannot loop over ") + value.TypeName());
  }
  return items;
}

const Value* FindKey(const Value& dict, const Value& key, Context& context) {
  context.ChargeLookups(dict.dict().size());
  if (key.is_string()) return dict.Find(key.string());
  for (const auto& [known, value] : dict.dict()) {
    if (!known.is_string() && Equal(known, key, context)) return &value;
  }
  return nullptr;
}

void SetKey(Dict& dict, const Value& key, Value value, Context& context) {
  context.Charge(2 * sizeof(Value));
  context.ChargeLookups(dict.size());
  if (!key.is_string() && !key.is_number() && !key.is_none()) {
    RequireDefined(key);
    Reject(std::string(key.TypeName()) + " as a dictionary key is not supported");
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

Value SliceOf(const Value& object, std::optional<int64_t> from, std::optional<int64_t> to,
              int64_t step, Context& context) {
  RequireDefined(object);
  if (step == 0) Reject("the step of a slice must not be 0");
  if (object.is_string() && !object.is_safe()) {
    context.Charge(kCharacterCost * object.string().size());
    const std::vector<std::string_view> characters = Characters(object.string());
    StrBuilder text(&context);
    for (const size_t i : SliceIndices(from, to, step, static_cast<int64_t>(characters.size()))) {
      text.AddPart(object.str(), characters[i]);
    }
    return context.Copy(text.Take());
  }
  if (!object.is_list()) Reject(std::string("cannot slice ") + object.TypeName());
  const List& items = object.list();
  List chosen;
  for (const size_t i : SliceIndices(from, to, step, static_cast<int64_t>(items.size()))) {
    chosen.push_back(items[i]);
  }
  context.Charge(chosen.size() * sizeof(Value));
  return LikeList(object, std::move(chosen));
}

}  // namespace ropeway::tokenizer::jinja
