#include <memory>
#include <string>
#include <string_view>

#include "answer/literal_reader.h"
#include "answer/marked_reader.h"

namespace ropeway::answer {
namespace {

// call:name{key:value, ..}, and perhaps more of them, then the mark of the end.
class GemmaReader final : public MarkedReader {
 public:
  explicit GemmaReader(const CallForm& form)
      : MarkedReader({form.end}), form_(form), value_(form.quote) {}

 protected:
  Step PutChar(char c) override;
  Step PutMark(int /*mark*/) override {
    if (open()) {
      Cut();
      End();
    }
    return any() ? Step::kDone : Step::kNoCall;
  }
  bool quotes() const override { return state_ == State::kArguments && value_.in_string(); }
  void Cut() override;

 private:
  enum class State : uint8_t {
    kBegins,
    kName,
    kArguments,
    kRaw,  // Arguments that are none: they stay as they are.
    kBehind,
  };
  static constexpr std::string_view kWord = "call:";

  Step PutArguments(char c);

  const CallForm& form_;
  State state_ = State::kBegins;
  size_t at_ = 0;  // Characters of kWord.
  std::string name_;
  LiteralReader value_;
};

MarkedReader::Step GemmaReader::PutChar(char c) {
  switch (state_) {
    case State::kBehind:
      if (IsSpace(c)) return Step::kGoOn;
      state_ = State::kBegins;
      at_ = 0;
      [[fallthrough]];
    case State::kBegins:
      if (at_ == 0 && IsSpace(c)) return Step::kGoOn;
      if (c != kWord[at_]) return Fail();
      if (++at_ < kWord.size()) return Step::kGoOn;
      state_ = State::kName;
      name_.clear();
      return Step::kGoOn;
    case State::kName:
      if (c == '{' && !name_.empty()) {
        if (!MayBegin(name_)) return Fail();
        Begin(name_);
        state_ = State::kArguments;
        value_ = LiteralReader(form_.quote);
        return PutArguments(c);
      }
      if (!IsNameChar(c)) return Fail();
      name_ += c;
      return Step::kGoOn;
    case State::kArguments:
      return PutArguments(c);
    case State::kRaw:
      Arguments({&c, 1});
      return Step::kGoOn;
  }
  return Fail();
}

MarkedReader::Step GemmaReader::PutArguments(char c) {
  std::string json;
  const LiteralReader::Step step = value_.Put(c, &json);
  Arguments(json);
  if (step == LiteralReader::Step::kEnd) {
    End();
    state_ = State::kBehind;
    return form_.end.empty() ? Step::kDone : Step::kGoOn;
  }
  if (step != LiteralReader::Step::kInside) {
    Arguments({&c, 1});
    state_ = State::kRaw;
  }
  return Step::kGoOn;
}

void GemmaReader::Cut() {
  std::string json;
  if (state_ == State::kArguments) value_.Finish(&json);
  Arguments(json);
}

}  // namespace

std::unique_ptr<CallReader> MakeGemmaReader(const CallForm& form) {
  return std::make_unique<GemmaReader>(form);
}

}  // namespace ropeway::answer
