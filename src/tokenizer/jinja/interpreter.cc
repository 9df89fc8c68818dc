#include "tokenizer/jinja/interpreter.h"

#include <algorithm>
#include <list>
#include <memory>
#include <stdexcept>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/error.h"
#include "tokenizer/jinja/evaluator.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/scope.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {
namespace {

// How a body ended.
enum class Flow { kOn, kBreak, kContinue };

class Interpreter {
 public:
  explicit Interpreter(Context& context)
      : context_(context),
        evaluator_(context, [this](int line, const Callable& macro, CallArguments arguments) {
          return CallMacro(line, macro, std::move(arguments));
        }) {}

  std::string Run(const Body& body, const Globals& globals) {
    // As in Jinja, the template's own variables lie over those it is given.
    Scope given(nullptr);
    for (const auto& [name, value] : globals) given.Assign(name, value, context_);
    Scope scope(&given);
    RunBody(body, scope);
    return std::move(output_);
  }

 private:
  // A scope within another, for as long as a block runs, or a macro remembers
  // it.
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
        return std::visit([&](const auto& node) { return RunNode(statement.line, node, scope); },
                          statement.node);
      });
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  // What `body` writes; its flow goes to `flow`.
  std::string Captured(const Body& body, Scope& scope, Flow* flow) {
    std::string outer = std::exchange(output_, {});
    *flow = RunBody(body, scope);
    return std::exchange(output_, std::move(outer));
  }

  Value Evaluate(const ExpressionPtr& expression, const Scope& scope) {
    return evaluator_.Evaluate(*expression, scope);
  }

  Flow RunNode(int, const Text& node, Scope&) { return Write(node.text); }

  Flow RunNode(int, const Output& node, Scope& scope) {
    const Value value = Evaluate(node.value, scope);
    return value.is_string() ? Write(value.string()) : Write(ToText(value, context_));
  }

  Flow RunNode(int, const If& node, Scope& scope) {
    for (const If::Branch& branch : node.branches) {
      if (branch.condition == nullptr || Evaluate(branch.condition, scope).Truth()) {
        return RunBody(branch.body, scope);
      }
    }
    return Flow::kOn;
  }

  Flow RunNode(int, const Set& node, Scope& scope) {
    Assign(node.target, Evaluate(node.value, scope), scope);
    return Flow::kOn;
  }

  Flow RunNode(int, const SetBlock& node, Scope& scope) {
    const Inner inner(*this, &scope);
    Flow flow = Flow::kOn;
    Value text = Value::Of(Captured(node.body, *inner, &flow));
    if (flow != Flow::kOn) return flow;
    if (node.filtered != nullptr) text = Filtered(node.filtered, std::move(text), scope);
    Assign(node.target, text, scope);
    return Flow::kOn;
  }

  Flow RunNode(int, const FilterBlock& node, Scope& scope) {
    const Inner inner(*this, &scope);
    Flow flow = Flow::kOn;
    Value text = Value::Of(Captured(node.body, *inner, &flow));
    if (flow != Flow::kOn) return flow;
    return Write(ToText(Filtered(node.filtered, std::move(text), scope), context_));
  }

  Value Filtered(const ExpressionPtr& filters, Value text, Scope& scope) {
    const Inner inner(*this, &scope);
    (*inner).Assign(kBlockName, std::move(text), context_);
    return Evaluate(filters, *inner);
  }

  Flow RunNode(int, const ScopeBlock& node, Scope& scope) {
    const Inner inner(*this, &scope);
    for (const auto& [target, value] : node.variables) {
      Assign(target, Evaluate(value, scope), *inner);
    }
    return RunBody(node.body, *inner);
  }

  Flow RunNode(int, const Break&, Scope&) { return Flow::kBreak; }
  Flow RunNode(int, const Continue&, Scope&) { return Flow::kContinue; }

  Flow RunNode(int, const For& node, Scope& scope) {
    const auto loop = std::make_shared<Loop>();
    loop->items = Items(node, scope);
    const Value value = Value::Of(loop);
    bool any = false;  // Whether a round reached its end: so Jinja tells whether
                       // to run the else.
    for (; loop->at < loop->items.size(); ++loop->at) {
      // What the body sets is gone after each round, as in Jinja.
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

  // What the loop goes through: of all the items those for which its condition
  // holds.
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
      throw std::invalid_argument("'" + target.name + "' is not a namespace");
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
      variables.emplace_back(target.attribute, std::move(value));
    }
  }

  void Unpack(const Target& target, const Value& value, Scope& scope) {
    const List parts = ToList(value, context_);
    if (parts.size() != target.parts.size()) {
      throw std::invalid_argument("a value does not have " + std::to_string(target.parts.size()) +
                                  " parts");
    }
    for (size_t i = 0; i < parts.size(); ++i) Assign(target.parts[i], parts[i], scope);
  }

  // A macro that remembers `scope`.
  static Value MacroValue(const Macro& macro, Scope& scope) {
    for (Scope* kept = &scope; kept != nullptr && !kept->is_kept; kept = kept->parent) {
      kept->is_kept = true;
    }
    Callable callable;
    callable.macro = &macro;
    callable.scope = &scope;
    return Value::Of(std::move(callable));
  }

  Flow RunNode(int, const MacroBlock& node, Scope& scope) {
    scope.Assign(node.macro->name, MacroValue(*node.macro, scope), context_);
    return Flow::kOn;
  }

  Flow RunNode(int, const CallBlock& node, Scope& scope) {
    const std::pair<std::string_view, Value> caller("caller", MacroValue(*node.caller, scope));
    return Write(ToText(evaluator_.EvaluateCall(*node.call, scope, &caller), context_));
  }

  Value CallMacro(int line, const Callable& callable, CallArguments arguments) {
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
    Value text = Guarded(line, [&] { return Value::Of(Captured(macro.body, *inner, &flow)); });
    return text;
  }

  // Gives the macro's parameters their arguments.
  void Bind(const Macro& macro, CallArguments arguments, Scope& scope) {
    const auto refuse = [&](const std::string& why) {
      throw std::invalid_argument("the macro '" + macro.name + "' " + why);
    };
    const auto& parameters = macro.parameters;
    if (arguments.positional.size() > parameters.size()) {
      refuse("takes not more than " + std::to_string(parameters.size()) + " arguments");
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
        refuse("takes no argument '" + std::string(name) + "'");
      }
    }
  }

  Flow Write(std::string_view text) {
    context_.Charge(text.size());
    output_ += text;
    return Flow::kOn;
  }

  Context& context_;
  Evaluator evaluator_;
  std::string output_;
  std::list<Scope> scopes_;
};

}  // namespace

std::string Render(const Body& body, const Globals& globals, Context& context) {
  return Interpreter(context).Run(body, globals);
}

}  // namespace ropeway::jinja
