// Arguments that models write as raw text.
#ifndef ROPEWAY_ANSWER_ARGUMENT_VALUE_H_
#define ROPEWAY_ANSWER_ARGUMENT_VALUE_H_

#include <cstdint>
#include <string>

#include "answer/argument_types.h"

namespace ropeway::answer {

// Makes JSON of one argument while its raw text comes. A string is the text as it is. Of other
// types the text is JSON, or, where no string may stand, Python that means the same; what is
// neither is a string.
class ArgumentValue {
 public:
  // `lines`: the text stands in lines of its own, so that a line break at its beginning and one at
  // its end are no part of it.
  ArgumentValue(JsonTypes types, bool lines) : types_(types), lines_(lines) {}

  // Appends to `json` what is certain by then: of strings all, of other types nothing.
  void Put(char c, std::string* json);
  // The value is complete.
  void End(std::string* json);
  // The answer ends within the value: what is held back of it, as it stands.
  void Cut(std::string* json);

 private:
  enum class Kind : uint8_t {
    kUnknown,  // There is nothing but white space.
    kString,
    kOther,  // It is held back, and may still turn out to be a string.
  };

  void Add(char c, std::string* json);

  JsonTypes types_;
  bool lines_;
  Kind kind_ = Kind::kUnknown;
  bool first_ = true;
  bool break_ = false;  // The last character is a line break, which is held back.
  std::string held_;
};

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_ARGUMENT_VALUE_H_
