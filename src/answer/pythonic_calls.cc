#include <memory>
#include <string>
#include <utility>

#include "answer/literal_reader.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// [name(key=value, ..), ..]
class PythonicReader final : public MarkedReader {
 public:
  explicit PythonicReader(const CallForm& form)
      : MarkedReader({form.end}), has_end_(!form.end.empty()) {}

 protected:
  Step PutChar(char c) override;
  // The block's end.
  Step PutMark(int /*mark*/) override {
    if (open()) EndCut();
    return any() ? Step::kDone : Step::kNoCall;
  }
  bool quotes() const override { return state_ == State::kValue && value_.in_string(); }
  void Cut() override;

 private:
  enum class State : uint8_t {
    kOpen,
    kNameOrEnd,
    kInName,
    kFirstKey,  // A key, or the call's end.
    kKey,       // The same behind a comma.
    kInKey,
    kEqual,  // Behind a key.
    kValue,
    kBehindValue,
    kBehindEmpty,  // Behind a first call that has no arguments, so that it may be none.
    kBehindCall,
    kBehindList,
  };

  static bool IsKeyChar(char c) {
    return (IsNameChar(c) && c != '.') || (static_cast<unsigned char>(c) >= 0x80 && c != kControl);
  }
  static bool IsFirstChar(char c) { return IsKeyChar(c) && c != '-' && (c < '0' || c > '9'); }

  Step PutKey(char c);
  Step PutValue(char c);
  Step EndCall();
  Step EndList();

  const bool has_end_;
  State state_ = State::kOpen;
  std::string name_;
  std::string key_;
  LiteralReader value_{""};
};

MarkedReader::Step PythonicReader::PutChar(char c) {
  const auto go_on = [this](State state) {
    state_ = state;
    return Step::kGoOn;
  };
  if (state_ == State::kValue) return PutValue(c);
  if (IsSpace(c) && state_ != State::kInName) {
    return state_ == State::kInKey ? go_on(State::kEqual) : Step::kGoOn;
  }
  switch (state_) {
    case State::kOpen:
      return c == '[' ? go_on(State::kNameOrEnd) : Fail();
    case State::kNameOrEnd:
      if (c == ']' && any()) return EndList();
      if (!IsFirstChar(c) || !IsNameChar(c)) return Fail();
      name_ = c;
      return go_on(State::kInName);
    case State::kInName:
      if (c == '(') return MayBegin(name_) ? go_on(State::kFirstKey) : Fail();
      if (!IsNameChar(c)) return Fail();
      name_ += c;
      return Step::kGoOn;
    case State::kFirstKey:
    case State::kKey:
      if (c == ')') return EndCall();
      if (!IsFirstChar(c)) return Break(c);
      key_ = c;
      return go_on(State::kInKey);
    case State::kInKey:
    case State::kEqual:
      return PutKey(c);
    case State::kBehindValue:
      if (c == ')') return EndCall();
      return c == ',' ? go_on(State::kKey) : Break(c);
    case State::kBehindEmpty:
      if (c != ',' && c != ']') return Fail();
      Begin(name_);
      End();
      [[fallthrough]];
    case State::kBehindCall:
      if (c == ',') return go_on(State::kNameOrEnd);
      return c == ']' ? EndList() : Fail();
    case State::kBehindList:
    case State::kValue:
      break;
  }
  return Fail();
}

MarkedReader::Step PythonicReader::PutKey(char c) {
  if (c == '=') {
    state_ = State::kValue;
    value_ = LiteralReader("");
    return Step::kGoOn;
  }
  if (state_ == State::kEqual || !IsKeyChar(c)) return Break(c);
  key_ += c;
  return Step::kGoOn;
}

MarkedReader::Step PythonicReader::PutValue(char c) {
  std::string json;
  if (!key_.empty()) {
    if (IsSpace(c)) return Step::kGoOn;
    if (!LiteralReader::Begins(c)) return Break(c);
    json = open() ? "," : "{";
    if (!open()) Begin(name_);
    json += '"' + std::exchange(key_, {}) + "\":";
  }
  const LiteralReader::Step step = value_.Put(c, &json);
  Arguments(json);
  switch (step) {
    case LiteralReader::Step::kInside:
      return Step::kGoOn;
    case LiteralReader::Step::kEnd:
      state_ = State::kBehindValue;
      return Step::kGoOn;
    case LiteralReader::Step::kBehind:
      state_ = State::kBehindValue;
      return PutChar(c);
    case LiteralReader::Step::kInvalid:
      break;
  }
  return Break(c);
}

MarkedReader::Step PythonicReader::EndCall() {
  if (open()) {
    Arguments("}");
    End();
  } else if (any()) {
    Begin(name_);
    End();
  } else {
    state_ = State::kBehindEmpty;
    return Step::kGoOn;
  }
  state_ = State::kBehindCall;
  return Step::kGoOn;
}

MarkedReader::Step PythonicReader::EndList() {
  Settle();
  state_ = State::kBehindList;
  return has_end_ ? Step::kGoOn : Step::kDone;
}

void PythonicReader::Cut() {
  std::string json;
  if (state_ == State::kValue) value_.Finish(&json);
  Arguments(json);
}

}  // namespace

std::unique_ptr<CallReader> MakePythonicReader(const CallForm& form) {
  return std::make_unique<PythonicReader>(form);
}

}  // namespace ropeway::answer
