// Python's operators on values. All throw std::invalid_argument where Python would raise.
#ifndef ROPEWAY_TOKENIZER_JINJA_OPERATORS_H_
#define ROPEWAY_TOKENIZER_JINJA_OPERATORS_H_

#include <cstdint>
#include <optional>

#include "tokenizer/jinja/value.h"

namespace ropeway::tokenizer::jinja {

enum class ArithmeticOperator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};
enum class ComparisonOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

Value Compute(ArithmeticOperator op, const Value& left, const Value& right, Context& context);
bool Compare(ComparisonOperator op, const Value& left, const Value& right, Context& context);

// left == right.
bool Equal(const Value& left, const Value& right, Context& context);
// left < right.
bool Less(const Value& left, const Value& right);

// The items that a loop over `value` visits.
List ToList(const Value& value, Context& context);

// The entry of a dictionary; nullptr if there is none. REQUIRES: dict.is_dict().
const Value* FindKey(const Value& dict, const Value& key, Context& context);
// Adds an entry, or changes the one with this key.
void SetKey(Dict& dict, const Value& key, Value value, Context& context);

// object[from:to:step]
Value SliceOf(const Value& object, std::optional<int64_t> from, std::optional<int64_t> to,
              int64_t step, Context& context);

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_OPERATORS_H_
