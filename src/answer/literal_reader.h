// Values as Python, and models that write alike, have them, made into JSON.
#ifndef ROPEWAY_ANSWER_LITERAL_READER_H_
#define ROPEWAY_ANSWER_LITERAL_READER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "answer/marked_reader.h"

namespace ropeway::answer {

// Appends a character to the inside of a JSON string.
void AppendJsonChar(char c, std::string* json);

// The text as a JSON string.
std::string QuotedText(std::string_view text);

// A word, which is a literal without quotation marks, as JSON: a number, true, false, null, or
// else a string.
std::string JsonOfWord(std::string_view word);

// Reads a Python string from behind its first quotation mark, as the inside of a JSON string.
class PythonString {
 public:
  enum class Step : uint8_t {
    kInside,
    kEnd,     // The character is its last one.
    kBehind,  // It was empty, and ended before the character.
  };
  // `quote`: ' or ".
  explicit PythonString(char quote) : quote_(quote) {}
  Step Put(char c, std::string* json);

 private:
  void PutContent(char c, std::string* json);
  void BeginEscape(char c, std::string* json);
  bool PutDigit(char c, std::string* json);
  void AppendCode(std::string* json);
  void EndPair(std::string* json);

  char quote_;
  bool opening_ = true;  // Only quotation marks so far.
  bool triple_ = false;
  int run_ = 1;  // Quotation marks in sequence, which open it or may close it.
  bool escaped_ = false;
  int base_ = 0;        // Of the digits of the present escape; 0: it has none.
  int digits_ = 0;      // That it may still have.
  std::string escape_;  // As written.
  uint32_t code_ = 0;
  uint32_t high_ = 0;  // The first half of a pair of surrogates.
};

// Reads one value, and writes it as JSON while it comes.
class LiteralReader {
 public:
  enum class Step : uint8_t {
    kInside,   // The character is a part of the value, or white space before it.
    kEnd,      // It is the value's last one.
    kBehind,   // The value ended before it.
    kInvalid,  // No value has it here.
  };

  // `quote`: a mark that strings stand in, besides ' and ", and without any escapes; "": none.
  // With such a mark keys have none, and words may have spaces, and whatever else ends none.
  explicit LiteralReader(std::string_view quote) : quote_({std::string(quote)}) {
    loose_ = !quote.empty();
  }

  // Whether a value may begin with it.
  static bool Begins(char c);

  // Appends to `json` what is certain by then.
  Step Put(char c, std::string* json);
  // The text ends here: what is held back.
  void Finish(std::string* json);

  // Within a string that has quotation marks.
  bool in_string() const { return state_ == State::kString || state_ == State::kQuoted; }

 private:
  enum class State : uint8_t {
    kValue,
    kElement,  // A value, or the end of the list.
    kKey,      // A key, or the end of the object.
    kColon,
    kAfter,  // Behind a value in a list or an object.
    kString,
    kQuoted,  // A string between marks.
    kWord,
  };

  Step PutValue(char c, std::string* json);
  Step PutWord(char c, std::string* json);
  Step Open(char c, std::string* json);
  Step Close(char c, std::string* json);
  Step EndString(std::string* json);
  // A value, or a key, has ended; `end`: with the present character.
  Step EndPart(Step end);
  void WriteComma(std::string* json);
  bool IsWordChar(char c) const;

  MarkFinder quote_;
  bool loose_;
  State state_ = State::kValue;
  bool key_ = false;    // The present string or word is a key.
  bool comma_ = false;  // The next element or key is to be written behind one.
  std::string open_;    // The brackets that are open.
  PythonString string_{'"'};
  std::string word_;
};

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_LITERAL_READER_H_
