// Reads a chat's answer while it is generated: thoughts, text and calls of tools.
#ifndef ROPEWAY_ANSWER_ANSWER_PARSER_H_
#define ROPEWAY_ANSWER_ANSWER_PARSER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer/answer_format.h"
#include "answer/argument_types.h"
#include "ropeway/request.h"

namespace ropeway::answer {

// What a parser is to know of the request.
struct AnswerOptions {
  bool in_thought = false;  // The prompt ends within a thought.
  // Names of the tools that may be called; calls of others are text.
  std::vector<std::string> tools = {};
  // The types of their arguments, tool by tool, for forms whose calls lack them (kXml); others
  // leave it empty.
  std::vector<ArgumentTypes> types = {};
  // The answer is calls alone, or a text that has another form: what does not begin as calls do is
  // all text.
  bool calls_alone = false;
  // The answer is held to calls: the beginning of one, which the answer's end cut, is no text.
  bool only_calls = false;
  // Whatever distinguishes this answer from all others of its conversation: ids of calls are made
  // of it, so that the same request gives the same ids.
  uint64_t digest = 0;
};

// A function of the options and of the text so far: however the text is cut, the parts of all
// deltas together are the same. So an answer that goes on elsewhere is read on from its text so
// far. Nothing is lost: what turns out to be no call is text, but for
// AnswerOptions::only_calls. Thread rule: one thread at a time.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;

  // Goes on with `marked` text (answer_format.h), and adds what is known by then to `delta`: text,
  // reasoning, tool_calls.
  virtual void Add(std::string_view marked, Delta* delta) = 0;
  // The answer ends here: hands out what was held back. Add may not follow.
  virtual void Finish(Delta* delta) = 0;

  // Whether the end of the text so far is within a thought.
  virtual bool thinking() const = 0;
  // Calls so far.
  virtual int calls() const = 0;
};

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_ANSWER_PARSER_H_
