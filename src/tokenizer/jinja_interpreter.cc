#include "tokenizer/jinja_interpreter.h"

#include <stdexcept>
#include <utility>

#include "tokenizer/jinja_error.h"
#include "tokenizer/jinja_evaluator.h"

namespace ropeway::jinja {
namespace {

class Interpreter {
 public:
  Interpreter(Dict globals, Budget budget) : budget_(budget), evaluator_(scopes_, budget_) {
    scopes_.push_back(std::move(globals));
  }

  std::string Run(const Body& body) {
    RunBody(body);
    return std::move(output_);
  }

 private:
  void RunBody(const Body& body) {
    for (const Statement& statement : body) {
      const auto run = [&](const auto& node) { RunNode(statement.line, node); };
      std::visit(run, statement.node);
    }
  }

  void RunNode(int line, const Text& node) { Write(line, node.text); }

  void RunNode(int line, const Output& node) {
    const Value value = evaluator_.Evaluate(*node.value);
    if (value.is_string()) {
      Write(line, value.string());
    } else {
      Write(line, Guarded(line, [&] { return ToText(value, budget_); }));
    }
  }

  void RunNode(int, const If& node) {
    for (const If::Branch& branch : node.branches) {
      if (branch.condition != nullptr && !evaluator_.Evaluate(*branch.condition).Truth()) continue;
      RunBody(branch.body);
      return;
    }
  }

  void RunNode(int, const Set& node) {
    Assign(scopes_.back(), node.target, evaluator_.Evaluate(*node.value));
  }

  void RunNode(int line, const For& node) {
    const List items = Items(line, node);
    if (items.empty()) RunBody(node.otherwise);
    for (size_t i = 0; i < items.size(); ++i) {
      // What the body sets is gone after each round, as in Jinja.
      scopes_.emplace_back();
      Bind(line, node.targets, items[i]);
      Assign(scopes_.back(), "loop", Loop(items, i));
      Guarded(line, [&] { budget_.Step(); });
      RunBody(node.body);
      scopes_.pop_back();
    }
  }

  // What the loop goes through: of all the items those for which its condition holds.
  List Items(int line, const For& node) {
    List items = Guarded(line, [&] { return evaluator_.ToList(evaluator_.Evaluate(*node.items)); });
    if (node.condition == nullptr) return items;
    List chosen;
    for (const Value& item : items) {
      scopes_.emplace_back();
      Bind(line, node.targets, item);
      if (evaluator_.Evaluate(*node.condition).Truth()) chosen.push_back(item);
      scopes_.pop_back();
    }
    return chosen;
  }

  void Bind(int line, const std::vector<std::string>& targets, const Value& item) {
    if (targets.size() == 1) return Assign(scopes_.back(), targets[0], item);
    const List parts = Guarded(line, [&] { return evaluator_.ToList(item); });
    if (parts.size() != targets.size()) {
      throw Error(line,
                  "an item of the loop does not have " + std::to_string(targets.size()) + " parts");
    }
    for (size_t i = 0; i < parts.size(); ++i) Assign(scopes_.back(), targets[i], parts[i]);
  }

  static void Assign(Dict& scope, const std::string& name, Value value) {
    for (auto& [known, slot] : scope) {
      if (known == name) {
        slot = std::move(value);
        return;
      }
    }
    scope.emplace_back(name, std::move(value));
  }

  static Value Loop(const List& items, size_t i) {
    const auto count = static_cast<int64_t>(items.size());
    const auto index = static_cast<int64_t>(i);
    return Value::Of(Dict{
        {"index", Value::Of(index + 1)},
        {"index0", Value::Of(index)},
        {"revindex", Value::Of(count - index)},
        {"revindex0", Value::Of(count - index - 1)},
        {"first", Value::Of(i == 0)},
        {"last", Value::Of(index + 1 == count)},
        {"length", Value::Of(count)},
        {"previtem", i == 0 ? Value::Missing("loop.previtem") : items[i - 1]},
        {"nextitem", index + 1 == count ? Value::Missing("loop.nextitem") : items[i + 1]},
    });
  }

  void Write(int line, std::string_view text) {
    Guarded(line, [&] { budget_.Charge(text.size()); });
    output_ += text;
  }

  Budget budget_;
  Scopes scopes_;
  Evaluator evaluator_;
  std::string output_;
};

}  // namespace

std::string Render(const Body& body, Dict globals, Budget budget) {
  return Interpreter(std::move(globals), budget).Run(body);
}

}  // namespace ropeway::jinja
