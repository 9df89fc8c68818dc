#include <memory>
#include <string>
#include <string_view>

#include "answer/json_calls.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// [{"name": .., "arguments": {..}}, ..]; or a name, perhaps an id behind its mark, perhaps the mark
// of arguments, and these.
class MistralReader final : public MarkedReader {
 public:
  explicit MistralReader(const CallForm& form) : MarkedReader({form.args, form.call}) {}

 protected:
  Step PutChar(char c) override;
  Step PutMark(int mark) override;
  // There marks would be text.
  bool quotes() const override { return state_ == State::kArguments || state_ == State::kObject; }

 private:
  enum Mark : int { kArgs, kId };
  enum class State : uint8_t {
    kOpen,
    kName,
    kInId,
    kBehindName,  // Only arguments may come.
    kArguments,
    kObject,
    kBehindObject,  // In a list.
  };

  Step PutHead(char c);
  Step PutArguments(char c);
  Step PutObject(char c);

  State state_ = State::kOpen;
  std::string name_;
  std::string id_;
  JsonValue value_;
  bool list_ = false;
  ObjectReader object_;
};

MarkedReader::Step MistralReader::PutChar(char c) {
  switch (state_) {
    case State::kOpen:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == '[' || c == '{') {
        list_ = c == '[';
        state_ = State::kObject;
        return list_ ? Step::kGoOn : PutObject(c);
      }
      state_ = State::kName;
      return PutHead(c);
    case State::kName:
    case State::kInId:
    case State::kBehindName:
      return PutHead(c);
    case State::kArguments:
      return PutArguments(c);
    case State::kObject:
      return PutObject(c);
    case State::kBehindObject:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == ']') return Step::kDone;
      if (c != ',') return Fail();
      object_ = ObjectReader();
      state_ = State::kObject;
      return Step::kGoOn;
  }
  return Fail();
}

MarkedReader::Step MistralReader::PutHead(char c) {
  if (c == '{' && !name_.empty()) {
    if (!MayBegin(name_)) return Fail();
    Begin(name_, id_);
    state_ = State::kArguments;
    return PutArguments(c);
  }
  if (IsSpace(c)) {
    if (state_ == State::kName) state_ = State::kBehindName;
    return Step::kGoOn;
  }
  if (state_ == State::kBehindName || !IsNameChar(c)) return Fail();
  (state_ == State::kName ? name_ : id_) += c;
  return Step::kGoOn;
}

MarkedReader::Step MistralReader::PutMark(int mark) {
  switch (state_) {
    case State::kName:
    case State::kInId:
    case State::kBehindName:
      if (name_.empty()) return Fail();
      state_ = mark == kId ? State::kInId : State::kBehindName;
      return Step::kGoOn;
    case State::kArguments:
    case State::kObject:
      return PutText(this->mark(mark));
    case State::kOpen:
    case State::kBehindObject:
      break;
  }
  return Fail();
}

MarkedReader::Step MistralReader::PutArguments(char c) {
  if (c == kControl) return Step::kGoOn;
  const JsonValue::Step step = value_.Put(c);
  if (step != JsonValue::Step::kInside && step != JsonValue::Step::kEnd) return Break(c);
  Arguments({&c, 1});
  if (step == JsonValue::Step::kInside) return Step::kGoOn;
  End();
  return Step::kDone;
}

MarkedReader::Step MistralReader::PutObject(char c) {
  const ObjectReader::Step step = object_.Put(c, writer());
  if (object_.begun() && !open()) Opened();
  switch (step) {
    case ObjectReader::Step::kGoOn:
      return Step::kGoOn;
    case ObjectReader::Step::kEnd:
      Closed();
      state_ = State::kBehindObject;
      return list_ ? Step::kGoOn : Step::kDone;
    case ObjectReader::Step::kNoCall:
      return Fail();
    case ObjectReader::Step::kBroken:
      break;
  }
  return Break(c);
}

}  // namespace

std::unique_ptr<CallReader> MakeMistralReader(const CallForm& form) {
  return std::make_unique<MistralReader>(form);
}

}  // namespace ropeway::answer
