#include "answer/call_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/chat_size.h"
#include "base/random.h"

namespace ropeway::answer {

std::string CallWriter::MakeId() const {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const size_t letters = short_ids_ ? 9 : 24;
  std::string id = short_ids_ ? "" : "call_";
  uint64_t hash = base::Mix64(digest_, static_cast<uint64_t>(calls_));
  uint64_t state = 0;
  for (size_t i = 0; i < letters; ++i) {
    // Ten letters are all that 64 bits have; what is left of them then would be no hash.
    if (i % 10 == 0) state = hash = base::Mix64(hash, i);
    id += kLetters[state % kLetters.size()];
    state /= kLetters.size();
  }
  return id;
}

bool CallWriter::MayBegin(std::string_view name) const {
  return static_cast<size_t>(calls_) < base::kMostCalls &&
         name.size() <= base::kMostCallNameBytes &&
         std::find(tools_.begin(), tools_.end(), name) != tools_.end();
}

JsonTypes CallWriter::TypesOf(std::string_view tool, std::string_view key) const {
  const auto at = static_cast<size_t>(std::ranges::find(tools_, tool) - tools_.begin());
  return at < types_.size() ? types_[at].Of(key) : kAnyType;
}

void CallWriter::Begin(std::string name, std::string id) {
  ToolCallDelta& delta = delta_->tool_calls.emplace_back();
  delta.index = calls_;
  const bool known = !id.empty() && id.size() <= base::kMostCallNameBytes;
  delta.id = known ? std::move(id) : MakeId();
  delta.name = std::move(name);
  ++calls_;
  open_ = true;
  any_ = false;
}

void CallWriter::Arguments(std::string_view piece) {
  if (piece.find_first_not_of(kControl) == piece.npos) return;
  any_ = true;
  std::vector<ToolCallDelta>& all = delta_->tool_calls;
  if (all.empty() || all.back().index != calls_ - 1) {
    all.emplace_back().index = calls_ - 1;
  }
  for (const char c : piece) {
    if (c != kControl) all.back().arguments += c;
  }
}

void CallWriter::End() {
  if (open_ && !any_) Arguments("{}");
  open_ = false;
}

}  // namespace ropeway::answer
