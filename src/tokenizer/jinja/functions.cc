// The functions that every template knows.
#include <array>
#include <stdexcept>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/error.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/strftime.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {
namespace {

Value Range(Context& context, const Value&, const Arguments& arguments) {
  constexpr int64_t kMaxItems = 100'000;  // The sandbox's own limit.
  const bool has_start = arguments.Has(1);
  const int64_t start = has_start ? arguments.Integer(0, 0, "range") : 0;
  const int64_t stop = arguments.Integer(has_start ? 1 : 0, 0, "range");
  const int64_t step = arguments.Integer(2, 1, "range");
  if (step == 0) throw std::invalid_argument("the step of a range is 0");
  List items;
  int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<int64_t>(items.size()) == kMaxItems) {
      throw std::invalid_argument("a range has more than 100000 items");
    }
    context.Charge(sizeof(Value));
    items.push_back(Value::Of(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::Of(std::move(items));
}

// The entries of a dictionary that is the first argument, if there is one, and
// the named ones.
Dict Entries(Context& context, const Arguments& arguments) {
  Dict entries;
  if (arguments.Given(0)) {
    if (!arguments[0].is_dict()) RefuseValue("a copy of a dictionary", arguments[0]);
    context.Charge(arguments[0].dict().size() * 2 * sizeof(Value));
    entries = arguments[0].dict();
  }
  for (const auto& [name, value] : arguments.named()) {
    SetKey(entries, Value::Of(name), value, context);
  }
  return entries;
}

Value MakeDict(Context& context, const Value&, const Arguments& arguments) {
  return Value::Of(Entries(context, arguments));
}

Value MakeNamespace(Context& context, const Value&, const Arguments& arguments) {
  Namespace* const space = context.NewNamespace();
  for (auto& [name, value] : Entries(context, arguments)) {
    space->variables.emplace_back(ToText(name, context), std::move(value));
  }
  return Value::Of(space);
}

Value RaiseException(Context& context, const Value&, const Arguments& arguments) {
  throw Raised(0, ToText(arguments[0], context));
}

Value StrftimeNow(Context& context, const Value&, const Arguments& arguments) {
  return context.Copy(Strftime(StringOf("strftime_now", arguments[0]), context.now()));
}

constexpr std::array kFunctions = {
    Builtin{"range", "start stop step", 1, Range},
    Builtin{"dict", "mapping **", 0, MakeDict},
    Builtin{"namespace", "mapping **", 0, MakeNamespace},
    Builtin{"raise_exception", "message", 1, RaiseException},
    Builtin{"strftime_now", "format", 1, StrftimeNow},
};

}  // namespace

std::span<const Builtin> Functions() { return kFunctions; }

}  // namespace ropeway::jinja
