// The methods of dictionaries, lists and loops: those that change nothing.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"

namespace ropeway::jinja {
namespace {

Value Get(Context& context, const Value& operand, const Arguments& arguments) {
  const Value& key = arguments[0];
  if (key.is_list() || key.is_dict()) throw std::invalid_argument("a key is a list or dictionary");
  const Value* value = FindKey(operand, key, context);
  if (value != nullptr) return *value;
  return arguments.Given(1) ? arguments[1] : Value();
}

Value Keys(Context& context, const Value& operand, const Arguments&) {
  return Value::Of(ToList(operand, context));
}

Value Values(Context& context, const Value& operand, const Arguments&) {
  context.Charge(operand.dict().size() * sizeof(Value));
  List values;
  for (const auto& entry : operand.dict()) values.push_back(entry.second);
  return Value::Of(std::move(values));
}

Value Items(Context& context, const Value& operand, const Arguments&) {
  context.Charge(operand.dict().size() * 4 * sizeof(Value));
  List items;
  for (const auto& [key, value] : operand.dict()) items.push_back(Value::Tuple({key, value}));
  return Value::Of(std::move(items));
}

Value Copy(Context&, const Value& operand, const Arguments&) { return operand; }

Value Index(Context& context, const Value& operand, const Arguments& arguments) {
  const List& items = operand.list();
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equal(items[i], arguments[0], context)) return Value::Of(static_cast<int64_t>(i));
  }
  throw std::invalid_argument("the item is not in the list");
}

Value Count(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(static_cast<int64_t>(
      std::count_if(operand.list().begin(), operand.list().end(),
                    [&](const Value& item) { return Equal(item, arguments[0], context); })));
}

Value Cycle(Context&, const Value& operand, const Arguments& arguments) {
  if (arguments.rest().empty()) throw std::invalid_argument("loop.cycle needs arguments");
  return arguments.rest()[operand.loop().at % arguments.rest().size()];
}

constexpr std::array kMethods = {
    Builtin{"dict.get", "key default", 1, Get}, Builtin{"dict.keys", "", 0, Keys},
    Builtin{"dict.values", "", 0, Values},      Builtin{"dict.items", "", 0, Items},
    Builtin{"dict.copy", "", 0, Copy},          Builtin{"list.copy", "", 0, Copy},
    Builtin{"list.index", "value", 1, Index},   Builtin{"list.count", "value", 1, Count},
    Builtin{"loop.cycle", "...", 0, Cycle},
};

}  // namespace

std::span<const Builtin> ContainerMethods() { return kMethods; }

}  // namespace ropeway::jinja
