// What may follow `is`.
#include <array>
#include <stdexcept>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
Value Holds(Context&, const Value& operand, const Arguments&) {
  return Value::Of(kHolds(operand));
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsInteger(const Value& v) { return v.is_integer(); }
bool IsFloat(const Value& v) { return v.is_float(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.Truth(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.Truth(); }
bool IsMapping(const Value& v) { return v.is_dict(); }
bool IsCallable(const Value& v) { return v.is_callable(); }
// In Python what has a length and items is a sequence for Jinja, so a
// dictionary and Undefined too.
bool IsSequence(const Value& v) {
  return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
}
bool IsIterable(const Value& v) { return IsSequence(v) || v.is_loop(); }

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
  if (!operand.is_integral()) RefuseValue("a test of parity", operand);
  return Value::Of((operand.integer() % 2 != 0) == kOdd);
}

template <bool (*kHolds)(std::string_view)>
Value HasCase(Context& context, const Value& operand, const Arguments&) {
  return Value::Of(kHolds(ToText(operand, context)));
}

// Of values that Python has one of each; of others it depends on the
// interpreter.
Value SameAs(Context&, const Value& operand, const Arguments& arguments) {
  const Value& other = arguments[0];
  if (other.is_none()) return Value::Of(operand.is_none());
  if (!other.is_bool()) throw std::invalid_argument("sameas takes only booleans and none");
  return Value::Of(operand.is_bool() && operand.Truth() == other.Truth());
}

constexpr std::array kTests = {
    Builtin{"defined", "", 0, Holds<IsDefined>},
    Builtin{"undefined", "", 0, Holds<IsUndefined>},
    Builtin{"none", "", 0, Holds<IsNone>},
    Builtin{"string", "", 0, Holds<IsString>},
    Builtin{"number", "", 0, Holds<IsNumber>},
    Builtin{"integer", "", 0, Holds<IsInteger>},
    Builtin{"float", "", 0, Holds<IsFloat>},
    Builtin{"boolean", "", 0, Holds<IsBoolean>},
    Builtin{"true", "", 0, Holds<IsTrue>},
    Builtin{"false", "", 0, Holds<IsFalse>},
    Builtin{"mapping", "", 0, Holds<IsMapping>},
    Builtin{"iterable", "", 0, Holds<IsIterable>},
    Builtin{"sequence", "", 0, Holds<IsSequence>},
    Builtin{"callable", "", 0, Holds<IsCallable>},
    Builtin{"sameas", "other", 1, SameAs},
    Builtin{"divisibleby", "num", 1, DivisibleBy},
    Builtin{"even", "", 0, HasParity<false>},
    Builtin{"odd", "", 0, HasParity<true>},
    Builtin{"upper", "", 0, HasCase<IsUppercase>},
    Builtin{"lower", "", 0, HasCase<IsLowercase>},
    Builtin{"in", "seq", 1, Compares<ComparisonOperator::kIn>},
    Builtin{"==", "other", 1, Compares<ComparisonOperator::kEqual>},
    Builtin{"eq", "other", 1, Compares<ComparisonOperator::kEqual>},
    Builtin{"equalto", "other", 1, Compares<ComparisonOperator::kEqual>},
    Builtin{"!=", "other", 1, Compares<ComparisonOperator::kNotEqual>},
    Builtin{"ne", "other", 1, Compares<ComparisonOperator::kNotEqual>},
    Builtin{">", "other", 1, Compares<ComparisonOperator::kGreater>},
    Builtin{"gt", "other", 1, Compares<ComparisonOperator::kGreater>},
    Builtin{"greaterthan", "other", 1, Compares<ComparisonOperator::kGreater>},
    Builtin{">=", "other", 1, Compares<ComparisonOperator::kGreaterEqual>},
    Builtin{"ge", "other", 1, Compares<ComparisonOperator::kGreaterEqual>},
    Builtin{"<", "other", 1, Compares<ComparisonOperator::kLess>},
    Builtin{"lt", "other", 1, Compares<ComparisonOperator::kLess>},
    Builtin{"lessthan", "other", 1, Compares<ComparisonOperator::kLess>},
    Builtin{"<=", "other", 1, Compares<ComparisonOperator::kLessEqual>},
    Builtin{"le", "other", 1, Compares<ComparisonOperator::kLessEqual>},
};

}  // namespace

std::span<const Builtin> Tests() { return kTests; }

}  // namespace ropeway::jinja
