// Filters of numbers.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/characters.h"

namespace ropeway::jinja {
namespace {

constexpr double kMaxInteger = 9e18;

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  text = StripLeft(StripRight(text));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (text.find('_') != text.npos) throw std::invalid_argument("'_' in a number is not supported");
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    throw std::invalid_argument("a number is too large");
  }
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Value Truncated(double number, const Value& otherwise) {
  if (!std::isfinite(number)) return otherwise;
  if (std::abs(number) > kMaxInteger) throw std::invalid_argument("an integer is too large");
  return Value::Of(static_cast<int64_t>(number));
}

Value Int(Context& context, const Value& operand, const Arguments& arguments) {
  Value otherwise = arguments.Given(0) ? arguments[0] : Value::Of(int64_t{0});
  if (arguments.Integer(1, 10, "int") != 10) {
    throw std::invalid_argument("int of another base than 10 is not supported");
  }
  if (operand.is_undefined()) RefuseValue("int", operand);
  if (operand.is_integral()) return Value::Of(operand.integer());
  if (operand.is_float()) return Truncated(operand.number(), otherwise);
  if (!operand.is_string()) return otherwise;
  context.Charge(operand.string().size());
  if (const auto integer = Parse<int64_t>(operand.string())) return Value::Of(*integer);
  const auto number = Parse<double>(operand.string());
  return number ? Truncated(*number, otherwise) : otherwise;
}

Value Float(Context& context, const Value& operand, const Arguments& arguments) {
  if (operand.is_undefined()) RefuseValue("float", operand);
  if (operand.is_number()) return Value::Of(operand.number());
  if (operand.is_string()) {
    context.Charge(operand.string().size());
    if (const auto number = Parse<double>(operand.string())) return Value::Of(*number);
  }
  return arguments.Given(0) ? arguments[0] : Value::Of(0.0);
}

Value Abs(Context&, const Value& operand, const Arguments&) {
  if (operand.is_float()) return Value::Of(std::abs(operand.number()));
  if (!operand.is_integral()) RefuseValue("abs", operand);
  int64_t result = operand.integer();
  if (result < 0 && __builtin_sub_overflow(int64_t{0}, result, &result)) {
    throw std::invalid_argument("an integer is too large");
  }
  return Value::Of(result);
}

Value Round(Context&, const Value& operand, const Arguments& arguments) {
  constexpr int64_t kMaxPrecision = 100;
  const int64_t precision = arguments.Integer(0, 0, "round");
  const std::string method = arguments.Has(1) ? arguments.Text(1, "round") : "common";
  if (!operand.is_number()) RefuseValue("round", operand);
  if (method != "common" || precision < 0 || precision > kMaxPrecision) {
    throw std::invalid_argument("this kind of round is not supported");
  }
  if (operand.is_integral()) return Value::Of(operand.integer());
  if (!std::isfinite(operand.number())) return operand;
  // As Python: the decimal nearest to the number, a half of its exact value to
  // the even digit.
  std::array<char, 512> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), operand.number(),
                                     std::chars_format::fixed, static_cast<int>(precision));
  double rounded = 0;
  std::from_chars(buffer.data(), written.ptr, rounded);
  return Value::Of(rounded);
}

constexpr std::array kFilters = {
    Builtin{"int", "default base", 0, Int},
    Builtin{"float", "default", 0, Float},
    Builtin{"abs", "", 0, Abs},
    Builtin{"round", "precision method", 0, Round},
};

}  // namespace

std::span<const Builtin> NumberFilters() { return kFilters; }

}  // namespace ropeway::jinja
