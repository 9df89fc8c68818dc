#include "tokenizer/jinja_evaluator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ropeway::jinja {
namespace {

[[noreturn]] void Refuse(const std::string& message) { throw std::invalid_argument(message); }

// Complains about an operation that `value` does not know; of what is missing, that it is.
[[noreturn]] void RefuseOperand(const char* operation, const Value& value) {
  if (value.is_undefined()) Refuse("'" + value.missing_name() + "' is undefined");
  Refuse(std::string(operation) + " is not possible with " + value.TypeName());
}

int64_t NumberOf(const char* operation, const Value& value) {
  if (!value.is_number()) RefuseOperand(operation, value);
  return value.number();
}

size_t TextSize(const Value& value) { return value.is_string() ? value.string().size() : 0; }

int64_t FloorDivide(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
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

}  // namespace

Value Evaluator::Evaluate(const Expression& expression) {
  Guarded(expression.line, [&] { budget_.Step(); });
  return std::visit([&](const auto& node) { return Visit(expression.line, node); },
                    expression.node);
}

List Evaluator::ToList(const Value& value) {
  if (value.is_undefined()) return {};
  List items;
  if (value.is_list()) {
    budget_.Charge(value.list().size() * sizeof(Value));
    items = value.list();
  } else if (value.is_dict()) {
    for (const auto& entry : value.dict()) items.push_back(Value::Of(entry.first));
  } else if (value.is_string()) {
    budget_.Charge(value.string().size() * sizeof(Value));
    for (const std::string_view c : Characters(value.string())) {
      items.push_back(Value::Of(std::string(c)));
    }
  } else {
    RefuseOperand("a loop", value);
  }
  return items;
}

Value Evaluator::Visit(int, const Literal& node) { return node.value; }

Value Evaluator::Visit(int, const Name& node) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const auto& [name, value] : *scope) {
      if (name == node.name) return value;
    }
  }
  return Value::Missing(node.name);
}

Value Evaluator::Visit(int line, const ListDisplay& node) {
  List items;
  for (const ExpressionPtr& item : node.items) items.push_back(Evaluate(*item));
  return Guarded(line, [&] { return Value::Of(std::move(items)); });
}

Value Evaluator::Visit(int line, const DictDisplay& node) {
  Dict entries;
  for (const auto& [key, value] : node.entries) {
    const Value name = Evaluate(*key);
    if (!name.is_string()) throw Error(line, "keys other than strings are not supported");
    const auto same = [&](const auto& entry) { return entry.first == name.string(); };
    const auto known = std::find_if(entries.begin(), entries.end(), same);
    Value content = Evaluate(*value);
    if (known != entries.end()) {
      known->second = std::move(content);
    } else {
      entries.emplace_back(name.string(), std::move(content));
    }
  }
  return Guarded(line, [&] { return Value::Of(std::move(entries)); });
}

Value Evaluator::Visit(int line, const Attribute& node) {
  const Value object = Evaluate(*node.object);
  if (object.is_undefined()) throw Error(line, "'" + object.missing_name() + "' is undefined");
  const Value* value = object.is_dict() ? object.Find(node.name) : nullptr;
  return value != nullptr ? *value : Value::Missing(node.name);
}

Value Evaluator::Visit(int line, const Item& node) {
  const Value object = Evaluate(*node.object);
  const Value key = Evaluate(*node.key);
  return Guarded(line, [&] { return ItemOf(object, key); });
}

Value Evaluator::ItemOf(const Value& object, const Value& key) {
  if (object.is_undefined()) Refuse("'" + object.missing_name() + "' is undefined");
  if (object.is_dict() && key.is_string()) {
    const Value* value = object.Find(key.string());
    return value != nullptr ? *value : Value::Missing(key.string());
  }
  if (!key.is_number() || !(object.is_list() || object.is_string())) {
    return Value::Missing(key.is_string() ? key.string() : "an item");
  }
  const List characters = object.is_string() ? ToList(object) : List();
  const List& items = object.is_string() ? characters : object.list();
  const auto count = static_cast<int64_t>(items.size());
  const int64_t index = key.number();
  if (index < -count || index >= count) return Value::Missing("item " + std::to_string(index));
  return items[static_cast<size_t>(index < 0 ? index + count : index)];
}

Value Evaluator::Visit(int line, const Slice& node) {
  const Value object = Evaluate(*node.object);
  const auto part = [&](const ExpressionPtr& expression) -> std::optional<int64_t> {
    if (expression == nullptr) return std::nullopt;
    const Value value = Evaluate(*expression);
    if (value.is_none()) return std::nullopt;
    return Guarded(line, [&] { return NumberOf("a slice", value); });
  };
  const std::optional<int64_t> from = part(node.from);
  const std::optional<int64_t> to = part(node.to);
  const int64_t step = part(node.step).value_or(1);
  if (step == 0) throw Error(line, "the step of a slice is 0");
  return Guarded(line, [&] {
    if (!object.is_list() && !object.is_string()) RefuseOperand("a slice", object);
    const List items = ToList(object);
    List chosen;
    std::string text;
    for (const size_t i : SliceIndices(from, to, step, static_cast<int64_t>(items.size()))) {
      if (object.is_string()) {
        text += items[i].string();
      } else {
        chosen.push_back(items[i]);
      }
    }
    return object.is_string() ? Value::Of(std::move(text)) : Value::Of(std::move(chosen));
  });
}

Value Evaluator::Visit(int line, const RaiseException& node) {
  const Value message = Evaluate(*node.message);
  throw Raised(line, Guarded(line, [&] { return ToText(message, budget_); }));
}

Value Evaluator::Visit(int line, const Apply& node) {
  const Value operand = Evaluate(*node.operand);
  Arguments arguments;
  for (const ExpressionPtr& argument : node.arguments) arguments.push_back(Evaluate(*argument));
  return Guarded(line, [&] { return node.builtin->apply(operand, arguments, budget_); });
}

Value Evaluator::Visit(int, const Not& node) { return Value::Of(!Evaluate(*node.operand).Truth()); }

Value Evaluator::Visit(int line, const Negative& node) {
  const Value zero = Value::Of(int64_t{0});
  const Value operand = Evaluate(*node.operand);
  return Guarded(line, [&] { return Compute(ArithmeticOperator::kSubtract, zero, operand); });
}

Value Evaluator::Visit(int, const And& node) {
  Value left = Evaluate(*node.left);
  return left.Truth() ? Evaluate(*node.right) : left;
}

Value Evaluator::Visit(int, const Or& node) {
  Value left = Evaluate(*node.left);
  return left.Truth() ? left : Evaluate(*node.right);
}

Value Evaluator::Visit(int line, const Arithmetic& node) {
  const Value left = Evaluate(*node.left);
  const Value right = Evaluate(*node.right);
  return Guarded(line, [&] { return Compute(node.op, left, right); });
}

Value Evaluator::Visit(int line, const Comparison& node) {
  Value left = Evaluate(*node.first);
  for (const auto& part : node.rest) {
    Value right = Evaluate(*part.second);
    const bool holds = Guarded(line, [&] { return Compare(part.first, left, right); });
    if (!holds) return Value::Of(false);
    left = std::move(right);
  }
  return Value::Of(true);
}

Value Evaluator::Visit(int, const Conditional& node) {
  if (Evaluate(*node.condition).Truth()) return Evaluate(*node.then);
  if (node.otherwise == nullptr) return Value::Missing("the value of an 'if' without 'else'");
  return Evaluate(*node.otherwise);
}

Value Evaluator::Add(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    budget_.Charge(left.string().size() + right.string().size());
    return Value::Of(left.string() + right.string());
  }
  if (left.is_list() && right.is_list()) {
    List items = ToList(left);
    const List more = ToList(right);
    items.insert(items.end(), more.begin(), more.end());
    return Value::Of(std::move(items));
  }
  int64_t sum = 0;
  if (!left.is_number()) {
    if (right.is_undefined()) RefuseOperand("+", right);
    if (left.is_undefined() || !(left.is_string() || left.is_list())) RefuseOperand("+", left);
    Refuse(std::string("+ is not possible between ") + left.TypeName() + " and " +
           right.TypeName());
  }
  if (__builtin_add_overflow(left.number(), NumberOf("+", right), &sum)) {
    Refuse("an integer is too large");
  }
  return Value::Of(sum);
}

Value Evaluator::Compute(ArithmeticOperator op, const Value& left, const Value& right) {
  if (op == ArithmeticOperator::kAdd) return Add(left, right);
  if (op == ArithmeticOperator::kConcatenate) {
    std::string text = ToText(left, budget_);
    return Value::Of(text += ToText(right, budget_));
  }
  const int64_t a = NumberOf("arithmetic", left);
  const int64_t b = NumberOf("arithmetic", right);
  int64_t result = 0;
  bool overflow = false;
  if (op == ArithmeticOperator::kSubtract) {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == ArithmeticOperator::kMultiply) {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else {
    if (b == 0) Refuse("division by 0");
    // b == -1 by itself: the lowest integer has no opposite.
    overflow = b == -1 && __builtin_sub_overflow(int64_t{0}, a, &result);
    if (b != -1) result = FloorDivide(a, b);
    if (op == ArithmeticOperator::kModulo) {
      overflow = false;
      result = b == -1 ? 0 : a - result * b;
    }
  }
  if (overflow) Refuse("an integer is too large");
  return Value::Of(result);
}

bool Evaluator::Compare(ComparisonOperator op, const Value& left, const Value& right) {
  budget_.Charge(std::min(TextSize(left), TextSize(right)));
  switch (op) {
    case ComparisonOperator::kEqual:
      return left == right;
    case ComparisonOperator::kNotEqual:
      return !(left == right);
    case ComparisonOperator::kIn:
      return Contains(right, left);
    case ComparisonOperator::kNotIn:
      return !Contains(right, left);
    default:
      break;
  }
  int order = 0;
  if (left.is_string() && right.is_string()) {
    order = left.string().compare(right.string());
  } else {
    const int64_t a = NumberOf("a comparison", left);
    const int64_t b = NumberOf("a comparison", right);
    order = a < b ? -1 : a > b ? 1 : 0;
  }
  if (op == ComparisonOperator::kLess) return order < 0;
  if (op == ComparisonOperator::kLessEqual) return order <= 0;
  if (op == ComparisonOperator::kGreater) return order > 0;
  return order >= 0;
}

bool Evaluator::Contains(const Value& container, const Value& value) {
  if (container.is_string()) {
    if (!value.is_string()) RefuseOperand("'in' a string", value);
    budget_.Charge(container.string().size());
    return container.string().find(value.string()) != std::string::npos;
  }
  if (container.is_list()) {
    budget_.Charge(container.list().size());
    return std::find(container.list().begin(), container.list().end(), value) !=
           container.list().end();
  }
  if (container.is_dict()) return value.is_string() && container.Find(value.string()) != nullptr;
  if (container.is_undefined()) return false;
  RefuseOperand("'in'", container);
}

}  // namespace ropeway::jinja
