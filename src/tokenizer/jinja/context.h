// What the parts of one rendering share.
#ifndef ROPEWAY_TOKENIZER_JINJA_CONTEXT_H_
#define ROPEWAY_TOKENIZER_JINJA_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

class Context {
 public:
  // `now` is what strftime_now tells.
  Context(int64_t steps, size_t bytes, const std::tm& now)
      : steps_(steps), bytes_(bytes), now_(now) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // What the rendering may still spend. Each throws std::length_error where it
  // is too much.
  void Step();
  // REQUIRES: called before the bytes are made, or looked at.
  void Charge(size_t bytes);

  // A string of its own, charged.
  Value Copy(std::string_view text);
  Namespace* NewNamespace();
  const std::tm& now() const { return now_; }

  // Held while the interpreter goes one level deeper.
  class Deeper {
   public:
    explicit Deeper(Context& context);
    ~Deeper() { --context_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Context& context_;
  };

 private:
  int64_t steps_;
  size_t bytes_;
  const std::tm now_;
  int depth_ = 0;
  std::deque<Namespace> namespaces_;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_CONTEXT_H_
