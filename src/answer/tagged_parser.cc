#include "answer/tagged_parser.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "answer/call_reader.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// `mark`: what the block has begun with; "": nothing.
std::unique_ptr<CallReader> MakeReader(const CallForm& form, std::string_view mark) {
  switch (form.syntax) {
    case CallSyntax::kTagged:
    case CallSyntax::kList:
    case CallSyntax::kBare:
      return MakeJsonReader(form, !mark.empty());
    case CallSyntax::kMistral:
      return MakeMistralReader(form);
    case CallSyntax::kPythonic:
      return MakePythonicReader(form);
    case CallSyntax::kDeepSeek:
      return MakeDeepSeekReader(form);
    case CallSyntax::kGemma:
      return MakeGemmaReader(form);
    case CallSyntax::kXml:
      return MakeXmlReader(form, mark == form.call);
    case CallSyntax::kNone:
    case CallSyntax::kHarmony:
      break;
  }
  return nullptr;
}

// Leaves out control tokens that mean nothing where they stand.
class ControlFilter {
 public:
  explicit ControlFilter(const std::vector<std::string>& controls) : controls_(controls) {}

  // Takes a character. Appends to `passed` what is text.
  void Put(char c, std::string* passed) {
    if (c == kControl) {
      inside_ = true;
      held_.clear();
      return;
    }
    if (!inside_) {
      *passed += c;
      return;
    }
    held_ += c;
    bool begins = false;
    for (const std::string& control : controls_) {
      if (control == held_) {
        inside_ = false;
        return;
      }
      begins = begins || control.starts_with(held_);
    }
    if (begins) return;
    inside_ = false;
    *passed += held_;
  }

 private:
  const std::vector<std::string>& controls_;
  bool inside_ = false;
  std::string held_;
};

// Thoughts between two marks, then text with calls of tools.
//
// White space is not shown at the ends of thoughts, between a thought and the text, and beside
// calls; where calls are read, it is held back until something else follows.
class TaggedParser final : public AnswerParser {
 public:
  TaggedParser(const AnswerFormat& format, const AnswerOptions& options)
      : form_(format.calls),
        reads_calls_(!options.tools.empty() && format.calls.syntax != CallSyntax::kNone),
        alone_(options.calls_alone && reads_calls_),
        only_calls_(options.only_calls && reads_calls_),
        writer_(options, format.calls.short_ids),
        filter_(format.controls),
        open_({format.reasoning.open}),
        close_({format.reasoning.close}),
        marks_(MarksOf(format.calls, options)) {
    if (!close_.any()) {
      state_ = State::kText;
    } else if (options.in_thought) {
      BeginThought();
    }
  }

  void Add(std::string_view marked, Delta* delta) override {
    delta_ = delta;
    writer_.set_delta(delta);
    for (const char c : marked) {
      ++size_;
      Put(c);
      PutAgain();
    }
  }

  void Finish(Delta* delta) override {
    delta_ = delta;
    writer_.set_delta(delta);
    switch (state_) {
      case State::kBegins:
        if (only_calls_) return;
        Text(std::exchange(space_, {}) + open_.Take());
        break;
      case State::kThought:
        Think(close_.Take());
        return;
      case State::kText:
      case State::kCalls:
        if (only_calls_) {
          if (state_ == State::kCalls) reader_->Finish(&writer_);
          return;
        }
        // Each time less is left: what ends a block is text, or belongs to its calls.
        while (state_ == State::kCalls) {
          EndBlock(reader_->Finish(&writer_));
          PutAgain();
        }
        Text(marks_.Take());
        break;
    }
    if (writer_.calls() == 0) delta_->text += std::exchange(space_, {});
  }

  bool thinking() const override { return state_ == State::kThought; }
  int calls() const override { return writer_.calls(); }

 private:
  // In the order of Mark. Some models leave out the mark before the first call.
  std::vector<std::string> MarksOf(const CallForm& form, const AnswerOptions& options) const {
    std::vector<std::string> marks;
    if (!reads_calls_) return marks;
    if (form.begin.empty()) {
      marks = {"", "", ""};
    } else {
      marks = {form.begin, form.end, form.syntax == CallSyntax::kXml ? form.call : ""};
    }
    if (!alone_) return marks;
    const std::vector<std::string> starts = BareStarts(form, options.tools);
    marks.insert(marks.end(), starts.begin(), starts.end());
    return marks;
  }

  enum class State : uint8_t {
    kBegins,  // Of the answer there is white space, or a part of the mark of thoughts.
    kThought,
    kText,
    kCalls,  // reader_ reads.
  };

  void Put(char c) {
    switch (state_) {
      case State::kBegins:
        return PutBeginning(c);
      case State::kThought:
        return PutThought(c);
      case State::kText:
        return PutText(c);
      case State::kCalls:
        return PutCall(c);
    }
  }

  void PutBeginning(char c) {
    if (!open_.holds() && IsSpace(c)) {
      space_ += c;
      return;
    }
    std::string passed;
    if (open_.Put(c, &passed) >= 0) return BeginThought();
    if (passed.empty()) return;
    // It does not begin with a thought.
    state_ = State::kText;
    Again(std::exchange(space_, {}) + passed + open_.Take());
  }

  void BeginThought() {
    state_ = State::kThought;
    space_.clear();
    skips_space_ = true;
  }

  void PutThought(char c) {
    std::string passed;
    const bool closed = close_.Put(c, &passed) >= 0;
    Think(passed);
    if (!closed) return;
    state_ = State::kText;
    space_.clear();
    skips_space_ = true;
  }

  void Think(std::string_view text) { Show(text, /*holds_space=*/true, &delta_->reasoning); }
  void Text(std::string_view text) {
    // What is no call there is a part of a mark, which the end of the answer has cut, if need be in
    // the middle of a character.
    if (!only_calls_) Show(text, reads_calls_, &delta_->text);
  }

  void Show(std::string_view text, bool holds_space, std::string* out) {
    std::string passed;
    for (const char c : text) filter_.Put(c, &passed);
    for (const char c : passed) {
      const bool space = IsSpace(c);
      if (space && skips_space_) continue;
      skips_space_ = false;
      if (space && holds_space) {
        space_ += c;
        continue;
      }
      *out += std::exchange(space_, {});
      *out += c;
      begun_ = begun_ || (!space && out == &delta_->text);
    }
  }

  void PutText(char c) {
    if (alone_) {
      // White space before calls stands only behind a thought.
      const bool shown = IsSpace(c) && !skips_space_ && !marks_.holds() && calls() == 0;
      begun_ = begun_ || shown;
      if (begun_) return Text(marks_.Take() + c);
    }
    const bool bare = !alone_ && (form_.begin.empty() || form_.syntax == CallSyntax::kBare ||
                                  form_.syntax == CallSyntax::kPythonic);
    const char first = form_.syntax == CallSyntax::kPythonic ? '[' : '{';
    // Calls without a mark are all of the answer.
    if (reads_calls_ && bare && !begun_ && calls() == 0 && !marks_.holds() && c == first) {
      BeginCalls({});
      return PutCall(c);
    }
    if (!marks_.any()) return Text({&c, 1});
    std::string passed;
    const int mark = marks_.Put(c, &passed);
    Text(passed);
    if (mark == kBegin) BeginCalls(form_.begin);
    if (mark == kCall) BeginCalls(form_.call);
    if (mark == kEnd && !std::exchange(lacks_end_, false)) Text(form_.end);
    if (mark > kCall) {
      BeginCalls({});
      Again(marks_.mark(mark));
    }
  }

  void BeginCalls(std::string_view mark) {
    reader_ = MakeReader(form_, mark);
    raw_ = mark;
    mark_size_ = mark.size();
    found_ = false;
    lacks_end_ = false;
    state_ = State::kCalls;
  }

  void PutCall(char c) {
    if (!found_) raw_ += c;
    const int before = writer_.calls();
    const CallReader::Step step = reader_->Put(c, &writer_);
    if (writer_.calls() > before) {
      // White space before the calls is shown if text follows them.
      if (!begun_) space_.clear();
      found_ = true;
      raw_.clear();
      skips_space_ = true;
    }
    if (step != CallReader::Step::kGoOn) EndBlock(step);
  }

  // `step`: as the reader has it, not kGoOn.
  void EndBlock(CallReader::Step step) {
    state_ = State::kText;
    if (step == CallReader::Step::kDone) {
      // What the reader has seen behind the block, which may begin another one.
      lacks_end_ = reader_->lacks_end();
      return Again(reader_->TakeRest());
    }
    const std::string raw = std::exchange(raw_, {});
    // Its mark is text, and so is the first character of calls without one. Behind that others may
    // begin. An answer that makes this go on and on is text.
    size_t text = std::max<size_t>(mark_size_, 1);
    if (again_size_ + raw.size() > kMostAgain * size_) text = raw.size();
    again_size_ += raw.size() - text;
    Text(std::string_view(raw).substr(0, text));
    Again(std::string_view(raw).substr(text));
  }

  // Reads `text` before all that comes, once the present character is done.
  void Again(std::string_view text) { again_.append(text.rbegin(), text.rend()); }
  void PutAgain() {
    while (!again_.empty()) {
      const char c = again_.back();
      again_.pop_back();
      Put(c);
    }
  }

  enum Mark : int { kBegin, kEnd, kCall };
  // How much may be read again, in lengths of the answer so far: it takes linear time.
  static constexpr size_t kMostAgain = 4;

  const CallForm& form_;
  const bool reads_calls_;
  const bool alone_;
  const bool only_calls_;
  CallWriter writer_;
  ControlFilter filter_;
  MarkFinder open_;
  MarkFinder close_;
  MarkFinder marks_;  // Of calls.
  State state_ = State::kBegins;
  std::string space_;         // White space that is held back.
  bool skips_space_ = false;  // White space that comes now is not shown.
  bool begun_ = false;        // There was text.
  std::unique_ptr<CallReader> reader_;
  std::string raw_;         // What the reader was given, until it finds a call.
  size_t mark_size_ = 0;    // Of the mark at its beginning.
  bool found_ = false;      // It found one.
  bool lacks_end_ = false;  // The last block's mark may still come.
  std::string again_;       // What is to be read again, backwards.
  size_t again_size_ = 0;   // Of all that was read again.
  size_t size_ = 0;         // Of the answer so far.
  Delta* delta_ = nullptr;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeTaggedParser(const AnswerFormat& format,
                                               const AnswerOptions& options) {
  return std::make_unique<TaggedParser>(format, options);
}

}  // namespace ropeway::answer
