#include "tokenizer/jinja/evaluator.h"

#include <optional>
#include <string>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {

Value Evaluator::Evaluate(const Expression& expression, const Scope& scope) {
  return Guarded(expression.line, [&] {
    const Context::Deeper deeper(context_);
    context_.Step();
    return std::visit([&](const auto& node) { return Visit(expression.line, node, scope); },
                      expression.node);
  });
}

Value Evaluator::EvaluateCall(const Expression& call, const Scope& scope,
                              const std::pair<std::string_view, Value>* extra) {
  const Call& node = std::get<Call>(call.node);
  const Value callee = Evaluate(*node.callee, scope);
  CallArguments arguments = EvaluateArguments(node.arguments, scope);
  if (extra != nullptr) arguments.named.push_back(*extra);
  return Guarded(call.line, [&] { return CallValue(call.line, callee, std::move(arguments)); });
}

Value Evaluator::Visit(int, const Literal& node, const Scope&) { return node.value; }

Value Evaluator::Visit(int, const Name& node, const Scope& scope) {
  if (const Value* value = scope.Find(node.name, context_)) return *value;
  if (const Builtin* function = FindFunction(node.name))
    return Value::Of(Callable{function, Value()});
  return Value::Missing(node.name);
}

Value Evaluator::Visit(int, const ListDisplay& node, const Scope& scope) {
  List items;
  context_.Charge(node.items.size() * sizeof(Value));
  for (const ExpressionPtr& item : node.items) items.push_back(Evaluate(*item, scope));
  return node.is_tuple ? Value::Tuple(std::move(items)) : Value::Of(std::move(items));
}

Value Evaluator::Visit(int, const DictDisplay& node, const Scope& scope) {
  Dict entries;
  for (const auto& [key, value] : node.entries) {
    const Value name = Evaluate(*key, scope);
    SetKey(entries, name, Evaluate(*value, scope), context_);
  }
  return Value::Of(std::move(entries));
}

Value Evaluator::Visit(int, const Attribute& node, const Scope& scope) {
  return AttributeOf(Evaluate(*node.object, scope), node.name, context_);
}

Value Evaluator::Visit(int, const Item& node, const Scope& scope) {
  const Value object = Evaluate(*node.object, scope);
  return ItemOf(object, Evaluate(*node.key, scope), context_);
}

Value Evaluator::Visit(int, const Slice& node, const Scope& scope) {
  const Value object = Evaluate(*node.object, scope);
  const auto part = [&](const ExpressionPtr& expression) -> std::optional<int64_t> {
    if (expression == nullptr) return std::nullopt;
    const Value value = Evaluate(*expression, scope);
    if (value.is_none()) return std::nullopt;
    if (!value.is_integral()) RefuseValue("a slice", value);
    return value.integer();
  };
  const std::optional<int64_t> from = part(node.from);
  const std::optional<int64_t> to = part(node.to);
  return SliceOf(object, from, to, part(node.step).value_or(1), context_);
}

CallArguments Evaluator::EvaluateArguments(const ArgumentList& arguments, const Scope& scope) {
  CallArguments result;
  for (const ExpressionPtr& argument : arguments.positional) {
    result.positional.push_back(Evaluate(*argument, scope));
  }
  for (const auto& [name, argument] : arguments.named) {
    result.named.emplace_back(name, Evaluate(*argument, scope));
  }
  return result;
}

Value Evaluator::Visit(int, const Apply& node, const Scope& scope) {
  const Value operand = Evaluate(*node.operand, scope);
  const Arguments arguments(*node.builtin, EvaluateArguments(node.arguments, scope));
  return node.builtin->apply(context_, operand, arguments);
}

Value Evaluator::Visit(int line, const Call& node, const Scope& scope) {
  const Value callee = Evaluate(*node.callee, scope);
  return CallValue(line, callee, EvaluateArguments(node.arguments, scope));
}

Value Evaluator::CallValue(int line, const Value& callee, CallArguments arguments) {
  if (!callee.is_callable()) RefuseValue("a call", callee);
  const Callable& callable = callee.callable();
  if (callable.macro != nullptr) return call_macro_(line, callable, std::move(arguments));
  const Builtin& builtin = *callable.builtin;
  return builtin.apply(context_, callable.self, Arguments(builtin, std::move(arguments)));
}

Value Evaluator::Visit(int, const Not& node, const Scope& scope) {
  return Value::Of(!Evaluate(*node.operand, scope).Truth());
}

Value Evaluator::Visit(int, const Negative& node, const Scope& scope) {
  const Value operand = Evaluate(*node.operand, scope);
  if (operand.is_float()) return Value::Of(-operand.number());
  return Compute(ArithmeticOperator::kSubtract, Value::Of(int64_t{0}), operand, context_);
}

Value Evaluator::Visit(int, const And& node, const Scope& scope) {
  Value left = Evaluate(*node.left, scope);
  return left.Truth() ? Evaluate(*node.right, scope) : left;
}

Value Evaluator::Visit(int, const Or& node, const Scope& scope) {
  Value left = Evaluate(*node.left, scope);
  return left.Truth() ? left : Evaluate(*node.right, scope);
}

Value Evaluator::Visit(int, const Arithmetic& node, const Scope& scope) {
  const Value left = Evaluate(*node.left, scope);
  return Compute(node.op, left, Evaluate(*node.right, scope), context_);
}

Value Evaluator::Visit(int, const Concatenation& node, const Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) text += ToText(Evaluate(*part, scope), context_);
  return Value::Of(std::move(text));
}

Value Evaluator::Visit(int, const Comparison& node, const Scope& scope) {
  Value left = Evaluate(*node.first, scope);
  for (const auto& [op, expression] : node.rest) {
    Value right = Evaluate(*expression, scope);
    if (!Compare(op, left, right, context_)) return Value::Of(false);
    left = std::move(right);
  }
  return Value::Of(true);
}

Value Evaluator::Visit(int, const Conditional& node, const Scope& scope) {
  if (Evaluate(*node.condition, scope).Truth()) return Evaluate(*node.then, scope);
  if (node.otherwise == nullptr) return Value::Absent("an 'if' without 'else' has no value");
  return Evaluate(*node.otherwise, scope);
}

}  // namespace ropeway::jinja
