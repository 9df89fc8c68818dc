// How the models of a family write a chat's answer: where thoughts begin and end, and what calls of
// tools look like.
#ifndef ROPEWAY_ANSWER_ANSWER_FORMAT_H_
#define ROPEWAY_ANSWER_ANSWER_FORMAT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::answer {

// Answers are read as marked text: the text of the tokens, in which each control token that the
// format names stands as this byte, which no UTF-8 text has, and the token's own text. So a model
// that quotes a mark with ordinary tokens does not make one.
inline constexpr char kControl = '\xFF';

// Where thoughts stand.
struct ReasoningForm {
  const char* name = "none";
  std::string open;  // "": the model does not think.
  std::string close;
};

// The forms of calls.
enum class CallSyntax : uint8_t {
  kNone,      // Calls are not known: they stay text.
  kTagged,    // `begin` {"name": .., "arguments": {..}} `end`, any number of times.
  kList,      // `begin` [{"name": .., "arguments": {..}}, ..] `end`
  kBare,      // The answer is {"name": .., "parameters": {..}}, perhaps behind `begin`, several
              // with ";" between them.
  kMistral,   // `begin` and a list as kList; or `begin` name `args` {..}, any number of times.
  kPythonic,  // [name(key=value, ..), ..], the answer alone, perhaps in `begin` and `end`.
  kDeepSeek,  // `begin` (`call` type `args` name "\n```json\n" {..} "\n```" `call_end`)* `end`;
              // newer, and `numbered`: `begin` (`call` name `args` {..} `call_end`)* `end`
  kGemma,     // `begin` "call:" name {key:value, ..} `end`; strings stand in `quote`.
  kXml,       // `begin` (`call` name `args` (`key` KEY `key_end` `value` VALUE `value_end`)*
              // `call_end`)* `end`; values are raw text. Without `call` there is one call, and a
              // line break, or a mark, ends its name.
  kHarmony,   // Messages with a channel and a recipient; thoughts are a channel.
};

struct CallForm {
  const char* name = "none";  // As --tool-parser names it.
  CallSyntax syntax = CallSyntax::kNone;
  std::string begin = {};
  std::string end = {};
  std::string call = {};
  std::string call_end = {};
  std::string args = {};
  std::string quote = {};
  std::string key = {};
  std::string key_end = {};
  std::string value = {};
  std::string value_end = {};
  bool lines = false;  // Values stand in lines of their own.
  // Names stand as functions.NAME:NUMBER, which is the call's id.
  bool numbered = false;
  // The ids of calls are nine letters and digits, which templates of the family demand.
  bool short_ids = false;
};

// What a model's answers are read by. Const.
struct AnswerFormat {
  ReasoningForm reasoning;
  CallForm calls;
  // Texts of the tokens that the forms above name; those that are control tokens of the vocabulary
  // stand marked in `reasoning` and `calls` (Resolve).
  std::vector<std::string> controls;
};

// Whether answers are messages in channels (harmony): thoughts are one, whatever calls look like.
bool HasChannels(const AnswerFormat& format);

// How the calls of an answer begin that has nothing else and does not begin with `form.begin`; none
// for forms whose calls always do.
std::vector<std::string> BareStarts(const CallForm& form, const std::vector<std::string>& tools);

// Names for --tool-parser: "hermes", "llama3_json", "mistral", ...
std::vector<std::string_view> CallFormNames();

// What a user may say of the forms.
struct FormatNames {
  std::string_view tool_parser = "auto";
  std::string_view reasoning = "auto";  // Or "none".
};

// Which forms a chat template's models write, by what stands in its text, unless `names` say it.
// `reads_tools`: whether the template shows tools; else they are shown by WithoutTools. kInvalid-
// Argument: there is no such name.
StatusOr<AnswerFormat> DetectFormat(std::string_view chat_template, bool reads_tools,
                                    const FormatNames& names = {});

// Marks in `format` what is a control token of the vocabulary, and drops the others of `controls`.
void Resolve(const std::function<bool(std::string_view token)>& is_control, AnswerFormat* format);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_ANSWER_FORMAT_H_
