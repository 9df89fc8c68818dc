#include "answer/harmony_parser.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/call_reader.h"
#include "answer/json_calls.h"
#include "answer/marked_reader.h"
#include "answer/tagged_parser.h"

namespace ropeway::answer {
namespace {

enum HarmonyMark : int {
  kStart,
  kChannel,
  kConstrain,
  kMessage,
  kEndOfMessage,
  kCall,
  kReturn,
};
constexpr std::string_view kHarmonyMarks[] = {"<|start|>",   "<|channel|>", "<|constrain|>",
                                              "<|message|>", "<|end|>",     "<|call|>",
                                              "<|return|>"};

std::vector<std::string> MarksOf(const AnswerFormat& format) {
  std::vector<std::string> marks;
  for (const std::string_view text : kHarmonyMarks) {
    const bool control =
        std::find(format.controls.begin(), format.controls.end(), text) != format.controls.end();
    marks.push_back((control ? std::string(1, kControl) : "") + std::string(text));
  }
  return marks;
}

// Removes a word, and the space before it, from the front.
std::string_view TakeWord(std::string_view* text) {
  const auto begin = std::find_if_not(text->begin(), text->end(), IsSpace);
  const auto end = std::find_if(begin, text->end(), IsSpace);
  const std::string_view word =
      text->substr(static_cast<size_t>(begin - text->begin()), static_cast<size_t>(end - begin));
  text->remove_prefix(static_cast<size_t>(end - text->begin()));
  return word;
}

constexpr std::string_view kTo = "to=";

class HarmonyParser final : public AnswerParser {
 public:
  HarmonyParser(const AnswerFormat& format, const AnswerOptions& options)
      : finder_(MarksOf(format)),
        writer_(options, format.calls.short_ids),
        only_calls_(options.only_calls) {
    if (options.in_thought) state_ = State::kThought;
    if (format.calls.syntax == CallSyntax::kHarmony) return;
    AnswerOptions of_text = options;
    of_text.in_thought = false;
    inner_ = MakeTaggedParser(format, of_text);
  }

  void Add(std::string_view marked, Delta* delta) override {
    delta_ = delta;
    writer_.set_delta(delta);
    std::string passed;
    for (const char c : marked) {
      passed.clear();
      const int mark = finder_.Put(c, &passed);
      for (const char each : passed) Put(each);
      if (mark >= 0) PutMark(mark);
    }
  }

  void Finish(Delta* delta) override {
    delta_ = delta;
    writer_.set_delta(delta);
    for (const char c : finder_.Take()) Put(c);
    // Of a header at the answer's end nothing is known to be text, but for one that began none.
    if (state_ == State::kBegins && !only_calls_) ShowHeader();
    if (state_ == State::kCall) writer_.Cut();
    if (inner_ != nullptr) inner_->Finish(delta);
  }

  bool thinking() const override { return state_ == State::kThought; }
  int calls() const override { return inner_ != nullptr ? inner_->calls() : writer_.calls(); }

 private:
  enum class State : uint8_t {
    kBegins,   // Behind the role that the prompt has: a recipient, or text without a header.
    kRole,     // Behind <|start|>.
    kChannel,  // Behind <|channel|>.
    kType,     // Behind <|constrain|>.
    kThought,
    kText,
    kCall,
  };

  void Put(char c) {
    if (state_ == State::kText) return ShowText({&c, 1});
    if (c == kControl) return;
    switch (state_) {
      case State::kBegins:
      case State::kRole:
      case State::kChannel:
      case State::kType:
        return PutHeader(c);
      case State::kThought:
        delta_->reasoning += c;
        return;
      case State::kText:
        return;
      case State::kCall:
        if (!arguments_ && IsSpace(c)) return;
        arguments_ = true;
        writer_.Arguments(c);
        return;
    }
  }

  void PutHeader(char c) {
    size_ += 1;
    header_ += c;
    if (state_ == State::kBegins) {
      std::string_view text = header_;
      while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
      if (text.substr(0, kTo.size()) != kTo.substr(0, text.size())) return ShowHeader();
    }
    if (size_ > kMostHeld) ShowHeader();
  }

  // What seemed to be a header is text.
  void ShowHeader() {
    state_ = State::kText;
    ShowText(std::exchange(header_, {}));
  }

  void ShowText(std::string_view text) {
    if (inner_ != nullptr) return inner_->Add(text, delta_);
    for (const char c : text) {
      if (c != kControl) delta_->text += c;
    }
  }

  void PutMark(int mark) {
    if (state_ == State::kCall && mark != kConstrain && mark != kMessage) writer_.End();
    switch (mark) {
      case kStart:
        BeginHeader(State::kRole);
        return;
      case kChannel:
        if (state_ == State::kBegins || state_ == State::kRole) {
          TakeRecipient();
        } else {
          BeginHeader(State::kChannel);
        }
        state_ = State::kChannel;
        header_.clear();
        return;
      case kConstrain:
        if (in_header()) EndPart();
        return;
      case kMessage:
        if (in_header()) BeginBody();
        return;
      default:
        // Between messages.
        BeginHeader(State::kText);
    }
  }

  bool in_header() const {
    return state_ == State::kBegins || state_ == State::kRole || state_ == State::kChannel ||
           state_ == State::kType;
  }

  void BeginHeader(State state) {
    state_ = state;
    size_ = 0;
    header_.clear();
    channel_.clear();
    recipient_.clear();
  }

  void TakeRecipient() {
    std::string_view rest = header_;
    for (std::string_view word = TakeWord(&rest); !word.empty(); word = TakeWord(&rest)) {
      if (word.starts_with(kTo)) recipient_ = word.substr(kTo.size());
    }
  }

  // A part of the header is complete.
  void EndPart() {
    TakeRecipient();
    if (state_ == State::kChannel) {
      std::string_view rest = header_;
      channel_ = TakeWord(&rest);
    }
    header_.clear();
    state_ = State::kType;
  }

  void BeginBody() {
    EndPart();
    constexpr std::string_view kFunctions = "functions.";
    const bool function =
        recipient_.starts_with(kFunctions) && recipient_.size() > kFunctions.size();
    const std::string name = function ? recipient_.substr(kFunctions.size()) : "";
    if (inner_ == nullptr && writer_.MayBegin(name)) {
      writer_.Begin(name);
      arguments_ = false;
      state_ = State::kCall;
    } else if (!function && (!recipient_.empty() || channel_ == "analysis")) {
      state_ = State::kThought;
    } else {
      state_ = State::kText;
    }
  }

  std::unique_ptr<AnswerParser> inner_;  // Reads the text; null: it has no calls.
  MarkFinder finder_;
  CallWriter writer_;
  const bool only_calls_;
  Delta* delta_ = nullptr;
  State state_ = State::kBegins;
  std::string header_;  // The present part of the header.
  size_t size_ = 0;     // Of the header so far.
  std::string channel_;
  std::string recipient_;
  bool arguments_ = false;  // The call has some.
};

}  // namespace

std::unique_ptr<AnswerParser> MakeHarmonyParser(const AnswerFormat& format,
                                                const AnswerOptions& options) {
  return std::make_unique<HarmonyParser>(format, options);
}

}  // namespace ropeway::answer
