// JSON as it comes, one character at a time, and calls as JSON objects.
#ifndef ROPEWAY_ANSWER_JSON_CALLS_H_
#define ROPEWAY_ANSWER_JSON_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "answer/call_reader.h"

namespace ropeway::answer {

// What may be held back of a call before its name is known.
inline constexpr size_t kMostHeld = size_t{64} << 10U;

// Follows one JSON value, to find its end. It takes whatever has balanced brackets and strings.
class JsonValue {
 public:
  enum class Step : uint8_t {
    kInside,   // The character is a part of the value, or white space before it.
    kEnd,      // It is the value's last character.
    kBehind,   // The value, a number or a word, ended before it.
    kInvalid,  // No value has it here.
  };
  Step Put(char c);
  // Whether the value has begun.
  bool begun() const { return begun_; }
  bool in_string() const { return in_string_; }

 private:
  std::string open_;  // The brackets that are open.
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool scalar_ = false;  // A number or a word at the top.
};

// Decodes the characters of a JSON string, from behind its first quotation mark.
class JsonString {
 public:
  enum class Step : uint8_t { kGoOn, kEnd, kInvalid };
  // Appends what the character adds to `text`.
  Step Put(char c, std::string* text);

 private:
  void AppendUnit(std::string* text);

  bool escaped_ = false;
  int digits_ = 0;     // Of a \u escape that are missing.
  uint32_t unit_ = 0;  // Of that escape.
  uint32_t high_ = 0;  // The first half of a pair of surrogates.
};

// Reads one object {"name": .., "arguments" or "parameters": {..}, "id": ..}, and writes the call.
// Arguments that come before the name are held back until that is known. Members with other names
// are left out.
class ObjectReader {
 public:
  enum class Step : uint8_t {
    kGoOn,
    kEnd,     // The character is the object's last one. The call, if it had a name, is complete.
    kNoCall,  // It is no call; nothing was written.
    kBroken,  // It is no object any more, but the call was begun: it has ended as it stands.
  };
  // `needs_arguments`: an object without any is no call.
  explicit ObjectReader(bool needs_arguments = false) : needs_arguments_(needs_arguments) {}

  // The first character is to be '{', white space may come before it.
  Step Put(char c, CallWriter* calls);
  // The text ends here.
  void Finish(CallWriter* calls);
  bool begun() const { return begun_; }

 private:
  enum class State : uint8_t { kOpen, kKeyOrEnd, kKey, kInKey, kColon, kValue, kInText, kBehind };

  Step PutValue(char c, CallWriter* calls);
  Step PutText(char c, CallWriter* calls);
  // What the value of the present key has more.
  void AddToValue(std::string_view piece, CallWriter* calls);
  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }
  Step EndMember(CallWriter* calls);
  Step End(CallWriter* calls);
  Step Fail(CallWriter* calls);

  // Begins the call once all is known that it needs; whether it may become one.
  bool TryBegin(CallWriter* calls);

  bool needs_arguments_;
  State state_ = State::kOpen;
  std::string key_;
  JsonString string_;
  JsonValue value_;
  std::string name_;
  std::string id_;
  std::string held_;  // Arguments before the name.
  size_t size_ = 0;   // Characters so far.
  bool begun_ = false;
  bool has_arguments_ = false;
};

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_JSON_CALLS_H_
