// How the parts of the template interpreter tell each other that something is
// wrong.
#ifndef ROPEWAY_TOKENIZER_JINJA_ERROR_H_
#define ROPEWAY_TOKENIZER_JINJA_ERROR_H_

#include <stdexcept>
#include <string>

namespace ropeway::jinja {

// Thrown within the interpreter only; ChatTemplate makes a Status of it.
struct Error : std::runtime_error {
  Error(int line, const std::string& message) : std::runtime_error(message), line(line) {}
  int line;
};

// The template called raise_exception: the messages are wrong, not the
// template.
struct Raised : Error {
  using Error::Error;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_ERROR_H_
