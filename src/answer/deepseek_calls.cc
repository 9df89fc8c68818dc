#include <memory>
#include <string>
#include <string_view>

#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// Calls between marks. Older models write a type before the separator, and behind it the name and
// the arguments in a fence; newer ones the name before it, and behind it the arguments alone.
class DeepSeekReader final : public MarkedReader {
 public:
  explicit DeepSeekReader(const CallForm& form)
      : MarkedReader({form.call, form.args, form.call_end, form.end}) {}

 protected:
  Step PutChar(char c) override;
  Step PutMark(int mark) override;
  bool quotes() const override { return state_ == State::kArguments && value_.in_string(); }

 private:
  enum Mark : int { kCall, kSeparator, kCallEnd, kEnd };
  enum class State : uint8_t {
    kBetween,  // Before, between and behind the calls.
    kHead,     // Between the mark of a call and the separator.
    kBehindSeparator,
    kName,   // Of an older model.
    kFence,  // Between the name and the arguments.
    kArguments,
    kRaw,     // Arguments that are none: they stay as they are.
    kBehind,  // Behind a call's arguments.
  };

  Step BeginArguments(char c);
  Step PutArguments(char c);

  State state_ = State::kBetween;
  std::string name_;
  JsonValue value_;
};

MarkedReader::Step DeepSeekReader::PutChar(char c) {
  switch (state_) {
    case State::kBetween:
      return IsSpace(c) ? Step::kGoOn : Fail();
    case State::kHead:
      if (IsSpace(c)) return Step::kGoOn;
      if (!IsNameChar(c)) return Fail();
      name_ += c;
      return Step::kGoOn;
    case State::kBehindSeparator:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == '{' || c == '`') {
        state_ = State::kFence;
        return PutChar(c);
      }
      name_.clear();  // It was a type.
      state_ = State::kName;
      [[fallthrough]];
    case State::kName:
      if (IsNameChar(c)) {
        name_ += c;
        return Step::kGoOn;
      }
      state_ = State::kFence;
      [[fallthrough]];
    case State::kFence:
      if (c == '{') return BeginArguments(c);
      return IsSpace(c) || std::string_view("`json").find(c) != std::string_view::npos ? Step::kGoOn
                                                                                       : Fail();
    case State::kArguments:
      return PutArguments(c);
    case State::kRaw:
      Arguments({&c, 1});
      return Step::kGoOn;
    case State::kBehind:
      if (!IsSpace(c) && c != '`') return Fail();
      Settle();
      return Step::kGoOn;
  }
  return Fail();
}

MarkedReader::Step DeepSeekReader::PutMark(int mark) {
  if (open()) {
    // Whatever the arguments lack, the model has ended them.
    End();
    state_ = State::kBehind;
  }
  switch (mark) {
    case kCall:
      if (state_ != State::kBetween && state_ != State::kBehind) return Fail();
      name_.clear();
      state_ = State::kHead;
      return Step::kGoOn;
    case kSeparator:
      if (state_ != State::kHead || name_.empty()) return Fail();
      state_ = State::kBehindSeparator;
      return Step::kGoOn;
    case kCallEnd:
      if (state_ == State::kBehindSeparator || state_ == State::kName || state_ == State::kFence) {
        if (!MayBegin(name_)) return Fail();
        Begin(name_);
        End();
      } else if (state_ != State::kBehind) {
        return Fail();
      }
      state_ = State::kBetween;
      Settle();
      return Step::kGoOn;
    case kEnd:
      return any() ? Step::kDone : Step::kNoCall;
    default:
      return Fail();
  }
}

MarkedReader::Step DeepSeekReader::BeginArguments(char c) {
  if (!MayBegin(name_)) return Fail();
  Begin(name_);
  value_ = JsonValue();
  state_ = State::kArguments;
  return PutArguments(c);
}

MarkedReader::Step DeepSeekReader::PutArguments(char c) {
  const JsonValue::Step step = value_.Put(c);
  Arguments({&c, 1});
  if (step == JsonValue::Step::kEnd) {
    End();
    state_ = State::kBehind;
  } else if (step != JsonValue::Step::kInside) {
    state_ = State::kRaw;
  }
  return Step::kGoOn;
}

}  // namespace

std::unique_ptr<CallReader> MakeDeepSeekReader(const CallForm& form) {
  return std::make_unique<DeepSeekReader>(form);
}

}  // namespace ropeway::answer
