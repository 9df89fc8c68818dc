#include "answer/json_calls.h"

#include <utility>

#include "base/utf8.h"

namespace ropeway::answer {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

JsonValue::Step JsonValue::Put(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      return open_.empty() ? Step::kEnd : Step::kInside;
    }
    return Step::kInside;
  }
  const bool first = !begun_;
  if (IsSpace(c)) return scalar_ ? Step::kBehind : Step::kInside;
  switch (c) {
    case '{':
    case '[':
      if (scalar_) return Step::kInvalid;
      begun_ = true;
      open_ += c;
      return Step::kInside;
    case '}':
    case ']':
      if (scalar_) return Step::kBehind;
      if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return Step::kInvalid;
      open_.pop_back();
      return open_.empty() ? Step::kEnd : Step::kInside;
    case '"':
      if (scalar_) return Step::kInvalid;
      begun_ = true;
      in_string_ = true;
      return Step::kInside;
    case ',':
    case ':':
      if (scalar_) return Step::kBehind;
      return open_.empty() ? Step::kInvalid : Step::kInside;
    default:
      break;
  }
  // A part of a number or of true, false, null.
  const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' ||
                    c == '.' || c == 'E';
  if (!word) return Step::kInvalid;
  if (first) scalar_ = true;
  begun_ = true;
  return Step::kInside;
}

JsonString::Step JsonString::Put(char c, std::string* text) {
  if (digits_ > 0) {
    const int digit = DigitOf(c);
    if (digit > 15) return Step::kInvalid;
    unit_ = unit_ * 16 + static_cast<uint32_t>(digit);
    if (--digits_ == 0) AppendUnit(text);
    return Step::kGoOn;
  }
  if (escaped_) {
    escaped_ = false;
    if (c == 'u') {
      digits_ = 4;
      unit_ = 0;
      return Step::kGoOn;
    }
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const size_t at = kLetters.find(c);
    if (at == std::string_view::npos) return Step::kInvalid;
    if (high_ != 0) base::AppendUtf8(kReplacement, *text);
    high_ = 0;
    *text += kMeant[at];
    return Step::kGoOn;
  }
  if (c == '\\') {
    escaped_ = true;
    return Step::kGoOn;
  }
  if (high_ != 0) base::AppendUtf8(kReplacement, *text);
  high_ = 0;
  if (c == '"') return Step::kEnd;
  *text += c;
  return Step::kGoOn;
}

void JsonString::AppendUnit(std::string* text) {
  const bool low = unit_ >= 0xDC00 && unit_ < 0xE000;
  if (high_ != 0 && low) {
    base::AppendUtf8(0x10000 + ((high_ - 0xD800) << 10U) + (unit_ - 0xDC00), *text);
    high_ = 0;
    return;
  }
  if (high_ != 0) base::AppendUtf8(kReplacement, *text);
  high_ = 0;
  if (unit_ >= 0xD800 && unit_ < 0xDC00) {
    high_ = unit_;
  } else {
    base::AppendUtf8(low ? kReplacement : unit_, *text);
  }
}

ObjectReader::Step ObjectReader::Put(char c, CallWriter* calls) {
  // Of a control token within an object its text is meant.
  if (c == kControl) return Step::kGoOn;
  if (!begun_ && ++size_ > kMostHeld) return Step::kNoCall;
  switch (state_) {
    case State::kOpen:
      if (IsSpace(c)) return Step::kGoOn;
      if (c != '{') return Fail(calls);
      state_ = State::kKeyOrEnd;
      return Step::kGoOn;
    case State::kKeyOrEnd:
    case State::kKey:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == '}' && state_ == State::kKeyOrEnd) return End(calls);
      if (c != '"') return Fail(calls);
      key_.clear();
      string_ = {};
      state_ = State::kInKey;
      return Step::kGoOn;
    case State::kInKey:
      switch (string_.Put(c, &key_)) {
        case JsonString::Step::kGoOn:
          return Step::kGoOn;
        case JsonString::Step::kEnd:
          state_ = State::kColon;
          return Step::kGoOn;
        case JsonString::Step::kInvalid:
          return Fail(calls);
      }
      return Fail(calls);
    case State::kColon:
      if (IsSpace(c)) return Step::kGoOn;
      if (c != ':') return Fail(calls);
      // A second value of a part that is complete would be no one's.
      if ((key_ == "name" && !name_.empty()) || (is_arguments() && has_arguments_)) {
        return Fail(calls);
      }
      value_ = {};
      state_ = State::kValue;
      return Step::kGoOn;
    case State::kValue:
      return PutValue(c, calls);
    case State::kInText:
      return PutText(c, calls);
    case State::kBehind:
      if (IsSpace(c)) return Step::kGoOn;
      if (c == '}') return End(calls);
      if (c != ',') return Fail(calls);
      state_ = State::kKey;
      return Step::kGoOn;
  }
  return Fail(calls);
}

ObjectReader::Step ObjectReader::PutValue(char c, CallWriter* calls) {
  if (!value_.begun()) {
    if (IsSpace(c)) return Step::kGoOn;
    const bool text = c == '"';
    if (key_ == "name" && !text) return Fail(calls);
    if (is_arguments()) {
      // An object, or a string that holds one.
      if (c != '{' && !text) return Fail(calls);
      has_arguments_ = true;
      if (!name_.empty() && !TryBegin(calls)) return Fail(calls);
    }
    if (text && (key_ == "name" || key_ == "id" || is_arguments())) {
      string_ = {};
      state_ = State::kInText;
      return Step::kGoOn;
    }
  }
  switch (value_.Put(c)) {
    case JsonValue::Step::kInside:
      AddToValue({&c, 1}, calls);
      return Step::kGoOn;
    case JsonValue::Step::kEnd:
      AddToValue({&c, 1}, calls);
      state_ = State::kBehind;
      return Step::kGoOn;
    case JsonValue::Step::kBehind:
      state_ = State::kBehind;
      return Put(c, calls);
    case JsonValue::Step::kInvalid:
      return Fail(calls);
  }
  return Fail(calls);
}

ObjectReader::Step ObjectReader::PutText(char c, CallWriter* calls) {
  std::string piece;
  const JsonString::Step step = string_.Put(c, &piece);
  if (step == JsonString::Step::kInvalid) return Fail(calls);
  if (key_ == "name") {
    name_ += piece;
  } else if (key_ == "id") {
    id_ += piece;
  } else {
    AddToValue(piece, calls);
  }
  return step == JsonString::Step::kEnd ? EndMember(calls) : Step::kGoOn;
}

void ObjectReader::AddToValue(std::string_view piece, CallWriter* calls) {
  if (!is_arguments()) return;
  if (begun_) {
    calls->Arguments(piece);
  } else {
    held_ += piece;
  }
}

ObjectReader::Step ObjectReader::EndMember(CallWriter* calls) {
  state_ = State::kBehind;
  if (key_ != "name" || name_.empty()) return Step::kGoOn;
  return TryBegin(calls) ? Step::kGoOn : Fail(calls);
}

bool ObjectReader::TryBegin(CallWriter* calls) {
  if (begun_) return true;
  if (!calls->MayBegin(name_)) return false;
  if (needs_arguments_ && !has_arguments_) return true;
  calls->Begin(name_, id_);
  begun_ = true;
  if (!held_.empty()) calls->Arguments(held_);
  held_.clear();
  return true;
}

ObjectReader::Step ObjectReader::End(CallWriter* calls) {
  if (!begun_) return Step::kNoCall;
  calls->End();
  return Step::kEnd;
}

ObjectReader::Step ObjectReader::Fail(CallWriter* calls) {
  if (!begun_) return Step::kNoCall;
  calls->Cut();
  return Step::kBroken;
}

void ObjectReader::Finish(CallWriter* calls) {
  if (begun_) calls->Cut();
}

namespace {

// kTagged, kList and kBare: objects with what stands around them.
class JsonReader final : public CallReader {
 public:
  JsonReader(const CallForm& form, bool marked)
      : form_(form), needs_arguments_(!marked), object_(needs_arguments_) {
    state_ = form.syntax == CallSyntax::kList ? State::kList : State::kObject;
  }

  Step Put(char c, CallWriter* calls) override {
    if (found_ && !object_.begun()) raw_ += c;
    switch (state_) {
      case State::kList:
        if (IsSpace(c)) return Step::kGoOn;
        if (c != '[') return Step::kNoCall;
        state_ = State::kObject;
        return Step::kGoOn;
      case State::kObject:
        return PutObject(c, calls);
      case State::kBehind:
        return PutBehind(c, calls);
      case State::kEnd:
        return PutEnd(c);
    }
    return Step::kDone;
  }

  Step Finish(CallWriter* calls) override {
    object_.Finish(calls);
    if (state_ != State::kEnd) rest_ = std::exchange(raw_, {});
    return found_ || object_.begun() ? Step::kDone : Step::kNoCall;
  }

  std::string TakeRest() override { return std::exchange(rest_, {}); }
  bool lacks_end() const override { return lacks_end_; }

 private:
  enum class State : uint8_t {
    kList,    // Before '['.
    kObject,  // In an object, or before one.
    kBehind,  // Behind an object.
    kEnd,     // In the mark at the end, or before it.
  };

  Step PutObject(char c, CallWriter* calls) {
    const ObjectReader::Step step = object_.Put(c, calls);
    if (object_.begun()) raw_.clear();
    switch (step) {
      case ObjectReader::Step::kGoOn:
        return Step::kGoOn;
      case ObjectReader::Step::kNoCall:
        return found_ ? Leave() : Step::kNoCall;
      case ObjectReader::Step::kBroken:
        raw_ = c;
        return Leave();
      case ObjectReader::Step::kEnd:
        break;
    }
    found_ = true;
    object_ = ObjectReader(needs_arguments_);
    state_ = State::kBehind;
    return Step::kGoOn;
  }

  // What came since the last call belongs to none.
  Step Leave() {
    rest_ = std::exchange(raw_, {});
    lacks_end_ = !form_.end.empty();
    return Step::kDone;
  }

  Step PutBehind(char c, CallWriter* calls) {
    if (IsSpace(c)) return Step::kGoOn;
    switch (form_.syntax) {
      case CallSyntax::kList:
        if (c == ',') {
          state_ = State::kObject;
          return Step::kGoOn;
        }
        if (c != ']') return Leave();
        raw_.clear();
        state_ = State::kEnd;
        return form_.end.empty() ? Step::kDone : Step::kGoOn;
      case CallSyntax::kBare:
        state_ = State::kObject;
        return c == ';' || c == ',' ? Step::kGoOn : PutObject(c, calls);
      default:
        state_ = c == '{' ? State::kObject : State::kEnd;
        return c == '{' ? PutObject(c, calls) : PutEnd(c);
    }
  }

  Step PutEnd(char c) {
    if (held_.empty() && IsSpace(c)) return Step::kGoOn;
    held_ += c;
    if (!form_.end.starts_with(held_)) return Leave();
    return held_.size() == form_.end.size() ? Step::kDone : Step::kGoOn;
  }

  const CallForm& form_;
  const bool needs_arguments_;
  State state_;
  ObjectReader object_;
  bool found_ = false;  // There was a call.
  std::string held_;    // Of the mark at the end.
  std::string raw_;     // All behind the last call, until the next has begun.
  std::string rest_;
  bool lacks_end_ = false;
};

}  // namespace

std::unique_ptr<CallReader> MakeJsonReader(const CallForm& form, bool marked) {
  return std::make_unique<JsonReader>(form, marked);
}

}  // namespace ropeway::answer
