// Fields of what a server sent, each read by one rule: it is used, converted, or a fault that names
// it. A field of an unexpected type is never as if it were not there; only null is.
#ifndef ROPEWAY_API_WIRE_FIELDS_H_
#define ROPEWAY_API_WIRE_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::api::wire {

// Reads the fields of one document and keeps the first fault. `name` is the field's, in full, for
// the message. Every method reads null as absent.
class FieldReader {
 public:
  // A clause about the server, such as "sent the field 'usage' as a number"; "": nothing is wrong.
  const std::string& fault() const { return fault_; }

  // An object; null where it is absent. PHP writes an empty one as an empty list.
  const nlohmann::json& Object(const nlohmann::json& value, const char* name);
  // A list; null where it is absent.
  const nlohmann::json& List(const nlohmann::json& value, const char* name);
  // A text; valid while `value` is.
  std::string_view Text(const nlohmann::json& value, const char* name);
  // Reads what the model says: a text, or a list of parts. Parts of the types text and refusal are
  // added to `text`, parts of the types thinking and reasoning to `thoughts`. A part of another
  // type, such as an image, is a fault.
  void Said(const nlohmann::json& value, const char* name, std::string* text,
            std::string* thoughts);
  // A number, or a text of digits. One that is no count (below 0, beyond 2^31 - 1, with a fraction)
  // is as absent: usage is estimated then, and says so.
  std::optional<int32_t> Count(const nlohmann::json& value, const char* name);
  // An integer from 0 to 2^64 - 1; anything else is a fault.
  std::optional<uint64_t> Integer(const nlohmann::json& value, const char* name);
  // A number.
  std::optional<double> Number(const nlohmann::json& value, const char* name);
  // true or false, or a text or number that means it.
  std::optional<bool> Flag(const nlohmann::json& value, const char* name);

  // The field is of an unexpected type.
  void Wrong(const nlohmann::json& value, const char* name);
  // It is wrong otherwise: `what` is the end of the clause behind its name.
  void Fault(const char* name, std::string_view what);

 private:
  std::string fault_;
};

// Appends the tokens of a choice's `logprobs` to `tokens`, with at most `top` of the most probable
// ones each. Two shapes are known: a list of {"token", "logprob", "bytes", "top_logprobs"} (chats),
// and lists "tokens", "token_logprobs" and "top_logprobs" (completions). `offset` counts the bytes
// of the tokens so far. Whatever else it is, is a fault.
void ReadLogprobs(const nlohmann::json& logprobs, int32_t top, FieldReader* fields,
                  uint64_t* offset, std::vector<OutputToken>* tokens);

// Some servers cut a text between the two halves of a surrogate pair: "\ud83d" in one document,
// "\ude00" in the next. Neither is JSON. Returns the document with U+FFFD in place of each half
// that stands alone; nothing where there is none.
std::optional<std::string> ReplaceHalves(std::string_view document);
// Returns the document with marks for HalfJoiner in place of such halves; nothing where there is
// none.
std::optional<std::string> MarkHalves(std::string_view document);

// Joins such halves over the texts of one answer. A half that stays alone becomes U+FFFD.
class HalfJoiner {
 public:
  // The text with its halves joined to those before; the last one is kept back, as its other half
  // may follow. `marked`: the text is of a document that MarkHalves returned.
  std::string Join(std::string text, bool marked);
  // What is left when the answer is over.
  std::string Rest();

 private:
  void TakeHalf(char32_t half, std::string* out);
  void Flush(std::string* out);

  char32_t first_ = 0;  // A first half without its second; 0: none.
};

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_WIRE_FIELDS_H_
