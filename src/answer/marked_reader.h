// What the readers of calls have in common: they find marks, and know which text belongs to a call.
#ifndef ROPEWAY_ANSWER_MARKED_READER_H_
#define ROPEWAY_ANSWER_MARKED_READER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/call_reader.h"

namespace ropeway::answer {

// Names of functions are made of these.
inline bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Finds any of several marks in a text that comes in characters. No mark begins another.
class MarkFinder {
 public:
  // Empty ones are never found.
  explicit MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  // Takes a character. Appends to `passed` what is certain to be no part of a mark. Returns the
  // index of the mark that it completes, or -1.
  int Put(char c, std::string* passed);
  // Whether what was put last may begin a mark.
  bool holds() const { return !held_.empty(); }
  // What it holds, and holds no more.
  std::string Take();

  const std::string& mark(int index) const { return marks_[static_cast<size_t>(index)]; }
  // Whether there is anything to find.
  bool any() const;

 private:
  bool Begins(std::string_view text) const;

  std::vector<std::string> marks_;
  std::string held_;
};

// A reader whose machine is given marks and the characters between them.
//
// A call that goes wrong before it has begun is text: the block is no call, or, behind its first
// call, ends before it.
class MarkedReader : public CallReader {
 public:
  Step Put(char c, CallWriter* calls) final;
  Step Finish(CallWriter* calls) final;
  std::string TakeRest() final;

 protected:
  explicit MarkedReader(std::vector<std::string> marks) : finder_(std::move(marks)) {}

  virtual Step PutChar(char c) = 0;
  // All of it, unless something ends before.
  Step PutText(std::string_view text);
  // `mark`: its index.
  virtual Step PutMark(int mark) = 0;
  // Whether the text is within quotation marks, where only control tokens are marks.
  virtual bool quotes() const { return false; }
  // The answer ends within the open call: the last of its arguments may be written.
  virtual void Cut() {}
  // The open call ends as it stands.
  void EndCut();

  bool MayBegin(std::string_view name) const { return calls_->MayBegin(name); }
  // REQUIRES: MayBegin(name).
  void Begin(std::string name, std::string id = {});
  void Arguments(std::string_view piece) { calls_->Arguments(piece); }
  void End();
  // The same, where another has written it to writer().
  void Opened();
  void Closed() { open_ = false; }
  CallWriter* writer() { return calls_; }
  // What was read so far belongs to the block.
  void Settle() { raw_.clear(); }
  // What was read since the last call is none.
  Step Fail();
  // The present character is no part of the open call any more, nor of the block.
  Step Break(char c);

  const std::string& mark(int index) const { return finder_.mark(index); }
  bool open() const { return open_; }
  bool any() const { return any_; }

 private:
  Step Feed(std::string_view passed, int mark);

  MarkFinder finder_;
  CallWriter* calls_ = nullptr;
  bool open_ = false;  // Between Begin and End.
  bool any_ = false;   // There was a Begin.
  std::string raw_;    // All since the last End or Settle, until the next Begin.
  std::string rest_;
};

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_MARKED_READER_H_
