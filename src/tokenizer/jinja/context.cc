#include "tokenizer/jinja/context.h"

#include <stdexcept>
#include <string>

namespace ropeway::jinja {
namespace {

// Levels of expressions and statements within each other, macros that call
// macros included: a level takes about a kilobyte of the stack, a few with
// sanitizers.
constexpr int kMaxLevels = 600;
// What a value takes besides its text.
constexpr size_t kValueBytes = 64;

}  // namespace

Context::Deeper::Deeper(Context& context) : context_(context) {
  if (context_.depth_ >= kMaxLevels) throw std::length_error("the template calls itself too deep");
  ++context_.depth_;
}

void Context::Step() {
  if (--steps_ < 0) throw std::length_error("the template takes too many steps");
}

void Context::Charge(size_t bytes) {
  if (bytes > bytes_) throw std::length_error("the template makes too much text");
  bytes_ -= bytes;
}

Value Context::Copy(std::string_view text) {
  Charge(text.size() + kValueBytes);
  return Value::Of(text);
}

Namespace* Context::NewNamespace() {
  Charge(kValueBytes);
  return &namespaces_.emplace_back();
}

}  // namespace ropeway::jinja
