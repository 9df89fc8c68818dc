#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "answer/argument_value.h"
#include "answer/literal_reader.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// Calls whose arguments stand one by one between marks. Values are raw text, in which nothing is
// escaped: a mark there ends the value only if another mark follows as in a call.
class XmlReader final : public MarkedReader {
 public:
  // `named`: the block has begun with the mark of a call.
  XmlReader(const CallForm& form, bool named)
      : MarkedReader({form.end, form.call, form.call_end, form.key, form.value, form.value_end}),
        form_(form),
        state_(named || form.call.empty() ? State::kName : State::kBetween) {}

  bool lacks_end() const override { return !ended_; }

 protected:
  Step PutChar(char c) override;
  Step PutMark(int mark) override;
  void Cut() override;

 private:
  enum Mark : int { kEnd, kCall, kCallEnd, kKey, kValue, kValueEnd };
  enum class State : uint8_t {
    kBetween,  // Before, between and behind the calls.
    kName,
    kArguments,  // Before, between and behind the arguments.
    kKey,
    kBehindKey,
    kValue,
    kHeld,  // Behind a mark that may have ended the value.
  };

  Step PutName(char c);
  // In a state where only marks may stand.
  Step PutOther(int mark);
  Step EndKey();
  Step BeginValue();
  void PutValue(std::string_view text);
  void EndValue();
  // REQUIRES: open(), or MayBegin(name_).
  void EndCall();
  Step EndBlock() {
    ended_ = true;
    return Step::kDone;
  }
  // Whether in a call `mark` may follow `before`, so that this is no part of a value.
  static bool Follows(int before, int mark) {
    if (before == kValueEnd) return mark == kKey || mark == kCallEnd || mark == kEnd;
    return before == kCallEnd && mark == kEnd;
  }

  const CallForm& form_;
  State state_;
  std::string name_;
  std::string key_;
  ArgumentValue value_{kAnyType, false};
  int held_mark_ = kEnd;
  std::string held_;  // The mark, and white space behind it.
  bool ended_ = false;
};

MarkedReader::Step XmlReader::PutChar(char c) {
  switch (state_) {
    case State::kBetween:
      return IsSpace(c) ? Step::kGoOn : Fail();
    case State::kName:
      return PutName(c);
    case State::kArguments:
    case State::kBehindKey:
      return IsSpace(c) ? Step::kGoOn : Break(c);
    case State::kKey:
      key_ += c;
      return key_.ends_with(form_.key_end) ? EndKey() : Step::kGoOn;
    case State::kHeld:
      held_ += c;
      if (IsSpace(c)) return Step::kGoOn;
      state_ = State::kValue;
      PutValue(std::exchange(held_, {}));
      return Step::kGoOn;
    case State::kValue:
      PutValue({&c, 1});
      return Step::kGoOn;
  }
  return Fail();
}

MarkedReader::Step XmlReader::PutName(char c) {
  // Where no mark follows the name, white space ends it.
  const bool ends = form_.args.empty() && !name_.empty() && IsSpace(c);
  if (IsSpace(c) && !ends) return Step::kGoOn;
  if (!ends) {
    if (!IsNameChar(c) && form_.args.find(c) == std::string::npos) return Fail();
    name_ += c;
    if (form_.args.empty() || !name_.ends_with(form_.args)) return Step::kGoOn;
    name_.resize(name_.size() - form_.args.size());
  }
  if (!MayBegin(name_)) return Fail();
  state_ = State::kArguments;
  return Step::kGoOn;
}

MarkedReader::Step XmlReader::PutMark(int mark) {
  if (state_ == State::kHeld) {
    const int before = held_mark_;
    if (Follows(before, mark)) {
      EndValue();
      if (before == kCallEnd) EndCall();
    } else {
      state_ = State::kValue;
      PutValue(std::exchange(held_, {}));
    }
  }
  switch (state_) {
    case State::kBetween:
      if (mark == kEnd) return any() ? EndBlock() : Step::kNoCall;
      if (mark != kCall) return Fail();
      name_.clear();
      state_ = State::kName;
      return Step::kGoOn;
    case State::kName:
      if (!form_.args.empty() || !MayBegin(name_)) return Fail();
      [[fallthrough]];
    case State::kArguments:
      if (mark == kKey) {
        key_.clear();
        state_ = State::kKey;
        return Step::kGoOn;
      }
      if (mark != kCallEnd && mark != kEnd) return PutOther(mark);
      if (!open() && !MayBegin(name_)) return Fail();
      EndCall();
      return mark == kEnd ? EndBlock() : Step::kGoOn;
    case State::kBehindKey:
      return mark == kValue ? BeginValue() : PutOther(mark);
    case State::kKey:
      state_ = State::kArguments;
      return PutOther(mark);
    case State::kValue:
    case State::kHeld:
      break;
  }
  const std::string& text = this->mark(mark);
  if (mark == kEnd && text.front() == kControl) {
    // Whatever the value lacks, the model has ended the block.
    EndValue();
    EndCall();
    return EndBlock();
  }
  if (mark == kValueEnd || mark == kCallEnd || mark == kEnd) {
    state_ = State::kHeld;
    held_mark_ = mark;
    held_ = text;
  } else {
    PutValue(text);
  }
  return Step::kGoOn;
}

MarkedReader::Step XmlReader::PutOther(int mark) {
  return open() ? PutText(this->mark(mark)) : Fail();
}

MarkedReader::Step XmlReader::EndKey() {
  key_.resize(key_.size() - form_.key_end.size());
  state_ = State::kBehindKey;
  return form_.value.empty() ? BeginValue() : Step::kGoOn;
}

MarkedReader::Step XmlReader::BeginValue() {
  std::string json = open() ? "," : "{";
  if (!open()) {
    if (!MayBegin(name_)) return Fail();
    Begin(name_);
  }
  Arguments(json + QuotedText(key_) + ':');
  value_ = ArgumentValue(writer()->TypesOf(name_, key_), form_.lines);
  state_ = State::kValue;
  return Step::kGoOn;
}

void XmlReader::PutValue(std::string_view text) {
  std::string json;
  for (const char c : text) value_.Put(c, &json);
  Arguments(json);
}

void XmlReader::EndValue() {
  std::string json;
  value_.End(&json);
  Arguments(json);
  state_ = State::kArguments;
}

void XmlReader::EndCall() {
  if (open()) {
    Arguments("}");
  } else {
    Begin(name_);
  }
  End();
  state_ = State::kBetween;
}

void XmlReader::Cut() {
  if (state_ == State::kValue) {
    std::string json;
    value_.Cut(&json);
    Arguments(json);
  } else if (state_ == State::kHeld) {
    EndValue();
    if (held_mark_ != kValueEnd) Arguments("}");
  }
}

}  // namespace

std::unique_ptr<CallReader> MakeXmlReader(const CallForm& form, bool named) {
  return std::make_unique<XmlReader>(form, named);
}

}  // namespace ropeway::answer
