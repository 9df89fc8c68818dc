// The machines that read calls of tools, one character at a time.
#ifndef ROPEWAY_ANSWER_CALL_READER_H_
#define ROPEWAY_ANSWER_CALL_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer/answer_format.h"
#include "answer/answer_parser.h"
#include "ropeway/request.h"

namespace ropeway::answer {

// White space of JSON, and of what stands around marks.
inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The value of a hexadecimal digit; 16: it is none.
inline int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// Writes calls into deltas, and gives them their indexes and ids. One for an answer.
class CallWriter {
 public:
  CallWriter(const AnswerOptions& options, bool short_ids)
      : tools_(options.tools),
        types_(options.types),
        digest_(options.digest),
        short_ids_(short_ids) {}

  // What follows is written to `delta`.
  void set_delta(Delta* delta) { delta_ = delta; }

  // Whether a call may have the name: a tool has it, and there are not too many calls.
  bool MayBegin(std::string_view name) const;
  // What an argument of the tool may be.
  JsonTypes TypesOf(std::string_view tool, std::string_view key) const;
  // A call begins. `id`: what the model wrote; one is made if that is empty or too long. REQUIRES:
  // MayBegin(name).
  void Begin(std::string name, std::string id = {});
  // The next piece of its arguments. Leaves out the signs of control tokens: here their text is
  // meant. REQUIRES: Begin.
  void Arguments(std::string_view piece);
  void Arguments(char c) { Arguments(std::string_view(&c, 1)); }
  // The call is complete: without arguments it gets "{}".
  void End();
  // The call ends as it stands. It gets no arguments that the model did not write: a program would
  // take them for the model's.
  void Cut() { open_ = false; }

  int calls() const { return calls_; }

 private:
  std::string MakeId() const;

  const std::vector<std::string> tools_;
  const std::vector<ArgumentTypes> types_;
  const uint64_t digest_;
  const bool short_ids_;
  Delta* delta_ = nullptr;
  int calls_ = 0;
  bool open_ = false;  // Between Begin and End.
  bool any_ = false;   // The open call has arguments.
};

// Reads the calls of one block: what follows CallForm::begin, to the block's end. A function of the
// characters, so that cuts do not matter.
class CallReader {
 public:
  enum class Step : uint8_t {
    kGoOn,
    kDone,    // The block has ended with this character; text may follow.
    kNoCall,  // It is no call: all from `begin` to this character is text. Only before Begin.
  };

  virtual ~CallReader() = default;
  virtual Step Put(char c, CallWriter* calls) = 0;
  // The answer ends within the block: an open call ends as it stands. kNoCall: as of Put. Else
  // kDone.
  virtual Step Finish(CallWriter* calls) = 0;
  // After kDone: what it has read that belongs to no call, the last character included, which is to
  // be read on as text. Mostly nothing. Of a mark that the answer's end cuts nothing is text.
  virtual std::string TakeRest() { return {}; }
  // After kDone: whether the mark of the block's end may still come, behind what is text.
  virtual bool lacks_end() const { return false; }
};

// A reader of the form's blocks. `form` must outlive it. `marked`: the block has begun with the
// form's mark. Without one an object is a call only if it has arguments.
std::unique_ptr<CallReader> MakeJsonReader(const CallForm& form, bool marked);  // kTagged, kList,
                                                                                // kBare.
std::unique_ptr<CallReader> MakeMistralReader(const CallForm& form);            // kMistral.
std::unique_ptr<CallReader> MakePythonicReader(const CallForm& form);           // kPythonic.
std::unique_ptr<CallReader> MakeDeepSeekReader(const CallForm& form);           // kDeepSeek.
std::unique_ptr<CallReader> MakeGemmaReader(const CallForm& form);              // kGemma.
// `named`: the block has begun with the mark of a call, and that of the block is missing.
std::unique_ptr<CallReader> MakeXmlReader(const CallForm& form, bool named);  // kXml.

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_CALL_READER_H_
