// The variables of a rendering.
#ifndef ROPEWAY_TOKENIZER_JINJA_SCOPE_H_
#define ROPEWAY_TOKENIZER_JINJA_SCOPE_H_

#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// Variables, and the scope around that others are looked for in.
struct Scope {
  explicit Scope(Scope* parent) : parent(parent) {}

  // nullptr where no scope has the variable.
  const Value* Find(std::string_view name, Context& context) const;
  // Sets a variable of this scope. `name` must outlive the scope.
  void Assign(std::string_view name, Value value, Context& context);

  Scope* const parent;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool is_kept = false;  // A macro remembers it, so it lives as long as the rendering.
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_SCOPE_H_
