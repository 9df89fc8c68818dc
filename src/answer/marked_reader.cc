#include "answer/marked_reader.h"

#include <algorithm>
#include <utility>

#include "answer/json_calls.h"

namespace ropeway::answer {

bool MarkFinder::Begins(std::string_view text) const {
  return std::any_of(marks_.begin(), marks_.end(),
                     [&](std::string_view mark) { return mark.substr(0, text.size()) == text; });
}

bool MarkFinder::any() const {
  return !std::all_of(marks_.begin(), marks_.end(), [](const auto& mark) { return mark.empty(); });
}

int MarkFinder::Put(char c, std::string* passed) {
  held_ += c;
  while (!held_.empty() && !Begins(held_)) {
    *passed += held_.front();
    held_.erase(0, 1);
  }
  if (held_.empty()) return -1;
  const auto found = std::find(marks_.begin(), marks_.end(), held_);
  if (found == marks_.end()) return -1;
  held_.clear();
  return static_cast<int>(found - marks_.begin());
}

std::string MarkFinder::Take() { return std::exchange(held_, {}); }

CallReader::Step MarkedReader::Put(char c, CallWriter* calls) {
  calls_ = calls;
  if (quotes() && !finder_.holds() && c != kControl) return Feed({&c, 1}, -1);
  std::string passed;
  const int mark = finder_.Put(c, &passed);
  return Feed(passed, mark);
}

CallReader::Step MarkedReader::Feed(std::string_view passed, int mark) {
  for (size_t i = 0; i < passed.size(); ++i) {
    if (!open_) raw_ += passed[i];
    const Step step = raw_.size() > kMostHeld ? Fail() : PutChar(passed[i]);
    if (step == Step::kGoOn) continue;
    rest_ += passed.substr(i + 1);
    rest_ += mark < 0 ? finder_.Take() : finder_.mark(mark);
    return step;
  }
  if (mark < 0) return Step::kGoOn;
  if (!open_) raw_ += finder_.mark(mark);
  return PutMark(mark);
}

CallReader::Step MarkedReader::Finish(CallWriter* calls) {
  calls_ = calls;
  const std::string held = finder_.Take();
  if (open_) PutText(held);
  if (open_) {
    Cut();
    EndCut();
  }
  rest_ += std::exchange(raw_, {});
  return any_ ? Step::kDone : Step::kNoCall;
}

CallReader::Step MarkedReader::PutText(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = PutChar(text[i]);
    if (step == Step::kGoOn) continue;
    rest_ += text.substr(i + 1);
    return step;
  }
  return Step::kGoOn;
}

std::string MarkedReader::TakeRest() { return std::exchange(rest_, {}); }

void MarkedReader::Begin(std::string name, std::string id) {
  calls_->Begin(std::move(name), std::move(id));
  Opened();
}

void MarkedReader::Opened() {
  open_ = true;
  any_ = true;
  raw_.clear();
}

void MarkedReader::End() {
  calls_->End();
  open_ = false;
}

void MarkedReader::EndCut() {
  calls_->Cut();
  open_ = false;
}

CallReader::Step MarkedReader::Fail() {
  if (!any_) return Step::kNoCall;
  rest_ = std::exchange(raw_, {});
  return Step::kDone;
}

CallReader::Step MarkedReader::Break(char c) {
  if (!open_) return Fail();
  EndCut();
  rest_ = c;
  return Step::kDone;
}

}  // namespace ropeway::answer
