#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "answer/json_calls.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// Calls between marks. Older models write a type before the separator, and behind it the name and
// the arguments in a fence; newer ones the name before it, and behind it the arguments alone. So do
// Kimi's, with more around the name (`numbered`).
class DeepSeekReader final : public MarkedReader {
 public:
  explicit DeepSeekReader(const CallForm& form)
      : MarkedReader({form.call, form.args, form.call_end, form.end}), numbered_(form.numbered) {}

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

  // Makes the name of a call's id: functions.NAME:NUMBER.
  void SplitId();
  Step BeginArguments(char c);
  Step PutArguments(char c);

  const bool numbered_;
  State state_ = State::kBetween;
  std::string name_;
  std::string id_;
  JsonValue value_;
};

MarkedReader::Step DeepSeekReader::PutChar(char c) {
  switch (state_) {
    case State::kBetween:
      return IsSpace(c) ? Step::kGoOn : Fail();
    case State::kHead:
      if (IsSpace(c)) return Step::kGoOn;
      if (!IsNameChar(c) && !(numbered_ && c == ':')) return Fail();
      name_ += c;
      return Step::kGoOn;
    case State::kBehindSeparator:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == '{' || c == '`') {
        state_ = State::kFence;
        return PutChar(c);
      }
      if (numbered_) return Fail();
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
      if (numbered_) SplitId();
      state_ = State::kBehindSeparator;
      return Step::kGoOn;
    case kCallEnd:
      if (state_ == State::kBehindSeparator || state_ == State::kName || state_ == State::kFence) {
        if (!MayBegin(name_)) return Fail();
        Begin(name_, id_);
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

void DeepSeekReader::SplitId() {
  constexpr std::string_view kSpace = "functions.";
  const size_t number = name_.rfind(':');
  // Without a number it is no id, as another call may have the same.
  id_ = number == std::string::npos ? "" : name_;
  name_.resize(std::min(number, name_.size()));
  if (name_.starts_with(kSpace)) name_.erase(0, kSpace.size());
}

MarkedReader::Step DeepSeekReader::BeginArguments(char c) {
  if (!MayBegin(name_)) return Fail();
  Begin(name_, id_);
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
