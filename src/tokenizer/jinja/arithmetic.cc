#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "tokenizer/jinja/format_string.h"
#include "tokenizer/jinja/operators.h"

namespace ropeway::jinja {
namespace {

[[noreturn]] void RefuseOperands(const char* sign, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) throw std::invalid_argument(value->why());
  }
  throw std::invalid_argument(std::string(sign) + " is not possible between " + left.TypeName() +
                              " and " + right.TypeName());
}

[[noreturn]] void RefuseSize() { throw std::invalid_argument("an integer is too large"); }

const char* SignOf(ArithmeticOperator op) {
  switch (op) {
    case ArithmeticOperator::kAdd:
      return "+";
    case ArithmeticOperator::kSubtract:
      return "-";
    case ArithmeticOperator::kMultiply:
      return "*";
    case ArithmeticOperator::kDivide:
      return "/";
    case ArithmeticOperator::kFloorDivide:
      return "//";
    case ArithmeticOperator::kModulo:
      return "%";
    case ArithmeticOperator::kPower:
      return "**";
  }
  return "?";
}

int64_t FloorDivide(int64_t left, int64_t right) {
  // The lowest integer has no opposite.
  if (right == -1 && left == std::numeric_limits<int64_t>::min()) RefuseSize();
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

int64_t Modulo(int64_t left, int64_t right) {
  return right == -1 ? 0 : left - FloorDivide(left, right) * right;
}

int64_t Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (exponent < 0) throw std::invalid_argument("** with a negative exponent is not supported");
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) RefuseSize();
  }
  return result;
}

Value Integers(ArithmeticOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case ArithmeticOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case ArithmeticOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case ArithmeticOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case ArithmeticOperator::kDivide:
      return Value::Of(static_cast<double>(a) / static_cast<double>(b));
    case ArithmeticOperator::kFloorDivide:
      result = FloorDivide(a, b);
      break;
    case ArithmeticOperator::kModulo:
      result = Modulo(a, b);
      break;
    case ArithmeticOperator::kPower:
      result = Power(a, b);
      break;
  }
  if (overflow) RefuseSize();
  return Value::Of(result);
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
  throw std::invalid_argument("** of floats is not supported");
}

Value Repeat(const Value& sequence, int64_t count, Context& context) {
  if (count < 0) count = 0;
  const size_t size =
      sequence.is_string() ? sequence.string().size() : sequence.list().size() * sizeof(Value);
  size_t total = 0;
  if (__builtin_mul_overflow(size, static_cast<size_t>(count), &total)) {
    throw std::length_error("the template makes too much text");
  }
  context.Charge(total);
  if (size == 0) count = 0;
  if (sequence.is_string()) {
    std::string text;
    text.reserve(total);
    for (int64_t i = 0; i < count; ++i) text += sequence.string();
    return Value::Of(std::move(text));
  }
  List items;
  for (int64_t i = 0; i < count; ++i) {
    items.insert(items.end(), sequence.list().begin(), sequence.list().end());
  }
  return sequence.is_tuple() ? Value::Tuple(std::move(items)) : Value::Of(std::move(items));
}

bool IsSequence(const Value& value) { return value.is_string() || value.is_list(); }

// What + * % do with strings and lists; none where they do nothing.
std::optional<Value> Sequences(ArithmeticOperator op, const Value& left, const Value& right,
                               Context& context) {
  if (op == ArithmeticOperator::kAdd && left.is_string() && right.is_string()) {
    context.Charge(left.string().size() + right.string().size());
    return Value::Of(left.string() + right.string());
  }
  if (op == ArithmeticOperator::kAdd && left.is_list() && right.is_list() &&
      left.is_tuple() == right.is_tuple()) {
    List items = ToList(left, context);
    context.Charge(right.list().size() * sizeof(Value));
    items.insert(items.end(), right.list().begin(), right.list().end());
    return left.is_tuple() ? Value::Tuple(std::move(items)) : Value::Of(std::move(items));
  }
  if (op == ArithmeticOperator::kMultiply && IsSequence(left) && right.is_integral()) {
    return Repeat(left, right.integer(), context);
  }
  if (op == ArithmeticOperator::kMultiply && IsSequence(right) && left.is_integral()) {
    return Repeat(right, left.integer(), context);
  }
  if (op == ArithmeticOperator::kModulo && left.is_string()) {
    return Value::Of(FormatPercent(left.string(), right, context));
  }
  return std::nullopt;
}

}  // namespace

Value Compute(ArithmeticOperator op, const Value& left, const Value& right, Context& context) {
  if (left.is_safe() || right.is_safe()) {
    throw std::invalid_argument(std::string(SignOf(op)) +
                                " of a safe text, which escapes HTML, is not supported");
  }
  if (left.is_number() && right.is_number()) {
    const bool divides = op == ArithmeticOperator::kDivide ||
                         op == ArithmeticOperator::kFloorDivide ||
                         op == ArithmeticOperator::kModulo;
    if (divides && right.number() == 0) throw std::invalid_argument("division by 0");
    if (left.is_integral() && right.is_integral()) {
      return Integers(op, left.integer(), right.integer());
    }
    return Floats(op, left.number(), right.number());
  }
  if (std::optional<Value> value = Sequences(op, left, right, context)) return *std::move(value);
  RefuseOperands(SignOf(op), left, right);
}

}  // namespace ropeway::jinja
