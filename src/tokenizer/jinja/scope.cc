#include "tokenizer/jinja/scope.h"

namespace ropeway::jinja {
namespace {

// Looking at so many variables costs as much as a byte.
constexpr size_t kLooksPerByte = 16;

}  // namespace

const Value* Scope::Find(std::string_view name, Context& context) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    context.Charge(scope->variables.size() / kLooksPerByte);
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Assign(std::string_view name, Value value, Context& context) {
  context.Charge(variables.size() / kLooksPerByte);
  for (auto& [known, slot] : variables) {
    if (known == name) {
      slot = std::move(value);
      return;
    }
  }
  context.Charge(sizeof(variables[0]));
  variables.emplace_back(name, std::move(value));
}

}  // namespace ropeway::jinja
