#include <algorithm>
#include <list>
#include <memory>
#include <optional>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {

// Variables, and the enclosing scope.
struct Scope {
  explicit Scope(Scope* parent) : parent(parent) {}

  // nullptr where no scope has the variable.
  const Value* Find(std::string_view name, Context& context) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      context.ChargeLookups(scope->variables.size());
      for (const auto& [known, value] : scope->variables) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }

  // Sets a variable of this scope. `name` must outlive the scope.
  void Assign(std::string_view name, Value value, Context& context) {
    context.ChargeLookups(variables.size());
    for (auto& [known, slot] : variables) {
      if (known == name) {
        slot = std::move(value);
        return;
      }
    }
    context.ChargeCopy(sizeof(variables[0]));
    if (is_kept) context.Keep(sizeof(variables[0]));
    variables.emplace_back(name, std::move(value));
  }

  Scope* const parent;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool is_kept = false;  // A macro refers to it, so it lives as long as the rendering.
};

namespace {

// Runs `action`, and adds the line to its errors, which have none.
template <typename Action>
auto Guarded(int line, Action action) {
  try {
    return action();
  } catch (const std::logic_error& error) {
    throw Error(line, error.what());
  }
}

// How a body ended.
enum class Flow { kOn, kBreak, kContinue };

class Interpreter {
 public:
  explicit Interpreter(Context& context) : context_(context), output_(&context) {}

  Str Run(const Body& body, const Globals& globals) {
    // As in Jinja, the template's own variables hide the globals.
    Scope given(nullptr);
    for (const auto& [name, value] : globals) given.Assign(name, value, context_);
    Scope scope(&given);
    RunBody(body, scope);
    return output_.Take();
  }

 private:
  // A nested scope. It lives as long as its block runs, or a macro refers to it.
  class Inner {
   public:
    Inner(Interpreter& interpreter, Scope* parent) : scopes_(interpreter.scopes_) {
      scope_ = scopes_.emplace(scopes_.end(), parent);
    }
    ~Inner() {
      if (!scope_->is_kept) scopes_.erase(scope_);
    }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;
    Scope& operator*() const { return *scope_; }

   private:
    std::list<Scope>& scopes_;
    std::list<Scope>::iterator scope_;
  };

  Flow RunBody(const Body& body, Scope& scope) {
    for (const Statement& statement : body) {
      const Flow flow = Guarded(statement.line, [&] {
        const Context::Deeper deeper(context_);
        context_.Step();
        return std::visit([&](const auto& node) { return RunNode(node, scope); }, statement.node);
      });
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  // The output of `body`. `flow` is set to how it ended.
  Str Captured(const Body& body, Scope& scope, Flow* flow) {
    StrBuilder outer = std::exchange(output_, StrBuilder(&context_));
    *flow = RunBody(body, scope);
    return std::exchange(output_, std::move(outer)).Take();
  }

  Value Evaluate(const ExpressionPtr& expression, Scope& scope) {
    return Guarded(expression->line, [&] {
      const Context::Deeper deeper(context_);
      context_.Step();
      return std::visit([&](const auto& node) { return Visit(node, scope); }, expression->node);
    });
  }

  Value Visit(const Literal& node, Scope&) { return node.value; }

  Value Visit(const Name& node, Scope& scope) {
    if (const Value* value = scope.Find(node.name, context_)) return *value;
    if (const Builtin* function = FindBuiltin(kFunction, node.name))
      return Value::Of(Callable{function, Value()});
    return Value::Missing(node.name);
  }

  Value Visit(const ListDisplay& node, Scope& scope) {
    List items;
    context_.Charge(node.items.size() * sizeof(Value));
    for (const ExpressionPtr& item : node.items) items.push_back(Evaluate(item, scope));
    return node.is_tuple ? Value::Tuple(std::move(items)) : Value::Of(std::move(items));
  }

  Value Visit(const DictDisplay& node, Scope& scope) {
    Dict entries;
    for (const auto& [key, value] : node.entries) {
      const Value name = Evaluate(key, scope);
      SetKey(entries, name, Evaluate(value, scope), context_);
    }
    return Value::Of(std::move(entries));
  }

  Value Visit(const Attribute& node, Scope& scope) {
    return AttributeOf(Evaluate(node.object, scope), node.name, context_);
  }

  Value Visit(const Item& node, Scope& scope) {
    const Value object = Evaluate(node.object, scope);
    return ItemOf(object, Evaluate(node.key, scope), context_);
  }

  Value Visit(const Slice& node, Scope& scope) {
    const Value object = Evaluate(node.object, scope);
    const auto part = [&](const ExpressionPtr& expression) -> std::optional<int64_t> {
      if (expression == nullptr) return std::nullopt;
      const Value value = Evaluate(expression, scope);
      if (value.is_none()) return std::nullopt;
      RequireDefined(value);
      if (!value.is_integral()) {
        Reject(std::string("the index of a slice must be an integer, got ") + value.TypeName());
      }
      return value.integer();
    };
    const std::optional<int64_t> from = part(node.from);
    const std::optional<int64_t> to = part(node.to);
    return SliceOf(object, from, to, part(node.step).value_or(1), context_);
  }

  Value Visit(const Apply& node, Scope& scope) {
    const Value operand = Evaluate(node.operand, scope);
    const Arguments arguments(*node.builtin, EvaluateArguments(node.arguments, scope));
    return node.builtin->apply(context_, operand, arguments);
  }

  Value Visit(const Call& node, Scope& scope) {
    const Value callee = Evaluate(node.callee, scope);
    return CallValue(callee, EvaluateArguments(node.arguments, scope));
  }

  Value Visit(const Not& node, Scope& scope) {
    return Value::Of(!Evaluate(node.operand, scope).Truth());
  }

  Value Visit(const Negative& node, Scope& scope) {
    const Value operand = Evaluate(node.operand, scope);
    if (operand.is_float()) return Value::Of(-operand.number());
    return Compute(ArithmeticOperator::kSubtract, Value::Of(int64_t{0}), operand, context_);
  }

  Value Visit(const Logical& node, Scope& scope) {
    Value left = Evaluate(node.left, scope);
    return left.Truth() == node.is_and ? Evaluate(node.right, scope) : left;
  }

  Value Visit(const Arithmetic& node, Scope& scope) {
    const Value left = Evaluate(node.left, scope);
    return Compute(node.op, left, Evaluate(node.right, scope), context_);
  }

  Value Visit(const Concatenation& node, Scope& scope) {
    StrBuilder text(&context_);
    for (const ExpressionPtr& part : node.parts) text.Add(ToText(Evaluate(part, scope), context_));
    return Value::Of(text.Take());
  }

  Value Visit(const Comparison& node, Scope& scope) {
    Value left = Evaluate(node.first, scope);
    for (const auto& [op, expression] : node.rest) {
      Value right = Evaluate(expression, scope);
      if (!Compare(op, left, right, context_)) return Value::Of(false);
      left = std::move(right);
    }
    return Value::Of(true);
  }

  Value Visit(const Conditional& node, Scope& scope) {
    if (Evaluate(node.condition, scope).Truth()) return Evaluate(node.then, scope);
    if (node.otherwise == nullptr) return Value::Absent("an 'if' without 'else' has no value");
    return Evaluate(node.otherwise, scope);
  }

  CallArguments EvaluateArguments(const ArgumentList& arguments, Scope& scope) {
    CallArguments result;
    for (const ExpressionPtr& argument : arguments.positional) {
      result.positional.push_back(Evaluate(argument, scope));
    }
    for (const auto& [name, argument] : arguments.named) {
      result.named.emplace_back(name, Evaluate(argument, scope));
    }
    return result;
  }

  Value CallValue(const Value& callee, CallArguments arguments) {
    RequireDefined(callee);
    if (!callee.is_callable()) Reject(std::string("cannot call ") + callee.TypeName());
    const Callable& callable = callee.callable();
    if (callable.macro != nullptr) return CallMacro(callable, std::move(arguments));
    const Builtin& builtin = *callable.builtin;
    return builtin.apply(context_, callable.self, Arguments(builtin, std::move(arguments)));
  }

  Flow RunNode(const Text& node, Scope&) {
    context_.ChargeCopy(node.text.size());
    output_.Add(node.text);
    return Flow::kOn;
  }

  Flow RunNode(const Output& node, Scope& scope) {
    const Value value = Evaluate(node.value, scope);
    return value.is_string() ? Write(value.str()) : Write(ToText(value, context_));
  }

  Flow RunNode(const If& node, Scope& scope) {
    for (const If::Branch& branch : node.branches) {
      if (branch.condition == nullptr || Evaluate(branch.condition, scope).Truth()) {
        return RunBody(branch.body, scope);
      }
    }
    return Flow::kOn;
  }

  Flow RunNode(const Set& node, Scope& scope) {
    Assign(node.target, Evaluate(node.value, scope), scope);
    return Flow::kOn;
  }

  Flow RunNode(const CaptureBlock& node, Scope& scope) {
    const Inner inner(*this, &scope);
    Flow flow = Flow::kOn;
    Value text = Value::Of(Captured(node.body, *inner, &flow));
    if (flow != Flow::kOn) return flow;
    if (node.filtered != nullptr) {
      const Inner filtered(*this, &scope);
      (*filtered).Assign(kBlockName, std::move(text), context_);
      text = Evaluate(node.filtered, *filtered);
    }
    if (node.target.name.empty() && node.target.parts.empty()) {
      return Write(ToText(text, context_));
    }
    Assign(node.target, std::move(text), scope);
    return Flow::kOn;
  }

  Flow RunNode(const ScopeBlock& node, Scope& scope) {
    const Inner inner(*this, &scope);
    for (const auto& [target, value] : node.variables) {
      Assign(target, Evaluate(value, scope), *inner);
    }
    return RunBody(node.body, *inner);
  }

  Flow RunNode(const Break&, Scope&) { return Flow::kBreak; }
  Flow RunNode(const Continue&, Scope&) { return Flow::kContinue; }

  Flow RunNode(const For& node, Scope& scope) {
    const auto loop = std::make_shared<Loop>();
    loop->items = Items(node, scope);
    const Value value = Value::Of(loop);
    bool any = false;  // Whether an iteration completed: in Jinja the else runs where none did.
    for (; loop->at < loop->items.size(); ++loop->at) {
      // As in Jinja, variables that the body sets last for one iteration.
      const Inner inner(*this, &scope);
      (*inner).Assign("loop", value, context_);
      Assign(node.target, loop->items[loop->at], *inner);
      context_.Step();
      const Flow flow = RunBody(node.body, *inner);
      any |= flow == Flow::kOn;
      if (flow == Flow::kBreak) break;
    }
    return any ? Flow::kOn : RunBody(node.otherwise, scope);
  }

  // The items that meet the loop's condition.
  List Items(const For& node, Scope& scope) {
    List items = ToList(Evaluate(node.items, scope), context_);
    if (node.condition == nullptr) return items;
    List chosen;
    for (Value& item : items) {
      const Inner inner(*this, &scope);
      Assign(node.target, item, *inner);
      if (Evaluate(node.condition, *inner).Truth()) chosen.push_back(std::move(item));
    }
    return chosen;
  }

  void Assign(const Target& target, Value value, Scope& scope) {
    if (!target.parts.empty()) return Unpack(target, value, scope);
    if (target.attribute.empty()) return scope.Assign(target.name, std::move(value), context_);
    const Value* const space = scope.Find(target.name, context_);
    if (space == nullptr || !space->is_namespace()) {
      Reject("'" + target.name + "' is not a namespace");
    }
    auto& variables = space->space().variables;
    context_.Charge(variables.size());
    const auto known = std::find_if(variables.begin(), variables.end(), [&](const auto& entry) {
      return entry.first == target.attribute;
    });
    if (known != variables.end()) {
      known->second = std::move(value);
    } else {
      context_.Charge(sizeof(variables[0]));
      context_.Keep(sizeof(variables[0]));
      variables.emplace_back(target.attribute, std::move(value));
    }
  }

  void Unpack(const Target& target, const Value& value, Scope& scope) {
    const List parts = ToList(value, context_);
    if (parts.size() != target.parts.size()) {
      Reject("expected a value with " + std::to_string(target.parts.size()) + " parts, got " +
             std::to_string(parts.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) Assign(target.parts[i], parts[i], scope);
  }

  // A macro that refers to `scope`.
  Value MacroValue(const Macro& macro, Scope& scope) {
    for (Scope* kept = &scope; kept != nullptr && !kept->is_kept; kept = kept->parent) {
      kept->is_kept = true;
      context_.Keep(sizeof(Scope) + kept->variables.size() * sizeof(kept->variables[0]));
    }
    Callable callable;
    callable.macro = &macro;
    callable.scope = &scope;
    return Value::Of(std::move(callable));
  }

  Flow RunNode(const MacroBlock& node, Scope& scope) {
    scope.Assign(node.macro->name, MacroValue(*node.macro, scope), context_);
    return Flow::kOn;
  }

  Flow RunNode(const CallBlock& node, Scope& scope) {
    Value caller = MacroValue(*node.caller, scope);
    const Call& call = std::get<Call>(node.call->node);
    const Value callee = Evaluate(call.callee, scope);
    CallArguments arguments = EvaluateArguments(call.arguments, scope);
    arguments.named.emplace_back("caller", std::move(caller));
    const Value text =
        Guarded(node.call->line, [&] { return CallValue(callee, std::move(arguments)); });
    return Write(ToText(text, context_));
  }

  Value CallMacro(const Callable& callable, CallArguments arguments) {
    const Macro& macro = *callable.macro;
    const Inner inner(*this, callable.scope);
    Bind(macro, std::move(arguments), *inner);
    for (const Macro::Parameter& parameter : macro.parameters) {
      const auto& variables = (*inner).variables;
      const bool given = std::any_of(variables.begin(), variables.end(), [&](const auto& entry) {
        return entry.first == parameter.name;
      });
      if (given) continue;
      Value value = Value::Absent("parameter '" + parameter.name + "' was not provided");
      if (parameter.otherwise != nullptr) value = Evaluate(parameter.otherwise, *inner);
      (*inner).Assign(parameter.name, std::move(value), context_);
    }
    Flow flow = Flow::kOn;
    return Value::Of(Captured(macro.body, *inner, &flow));
  }

  // Assigns the arguments to the macro's parameters.
  void Bind(const Macro& macro, CallArguments arguments, Scope& scope) {
    const auto reject = [&](const std::string& why) {
      Reject("the macro '" + macro.name + "' " + why);
    };
    const auto& parameters = macro.parameters;
    if (arguments.positional.size() > parameters.size()) {
      reject("takes at most " + std::to_string(parameters.size()) + " arguments");
    }
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      scope.Assign(parameters[i].name, std::move(arguments.positional[i]), context_);
    }
    for (auto& [name, value] : arguments.named) {
      const auto begin = parameters.begin() + static_cast<ptrdiff_t>(arguments.positional.size());
      const auto known = std::find_if(begin, parameters.end(),
                                      [&, key = name](const auto& p) { return p.name == key; });
      if (known != parameters.end()) {
        scope.Assign(known->name, std::move(value), context_);
      } else if (name == "caller" && macro.takes_caller) {
        scope.Assign("caller", std::move(value), context_);
      } else {
        reject("does not take an argument named '" + std::string(name) + "'");
      }
    }
  }

  Flow Write(const Str& str) {
    context_.ChargeCopy(str.text.size());
    output_.Add(str);
    return Flow::kOn;
  }

  Context& context_;
  StrBuilder output_;
  std::list<Scope> scopes_;
};

}  // namespace

Str Render(const Body& body, const Globals& globals, Context& context) {
  return Interpreter(context).Run(body, globals);
}

}  // namespace ropeway::tokenizer::jinja
