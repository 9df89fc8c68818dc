#include <cstdlib>
#include <set>

#include "base/utf8.h"
#include "grammar/ebnf.h"

namespace ropeway::grammar {
namespace {

// The next character of what stands in a class's brackets, which must not be empty.
char32_t TakeCharacter(std::string_view* text) {
  if (text->front() == '\\' && text->size() > 1) {
    const char kind = (*text)[1];
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const std::string hex(text->substr(2, digits));
    text->remove_prefix(2 + hex.size());
    return digits == 0 ? static_cast<char32_t>(kind)
                       : static_cast<char32_t>(std::strtoul(hex.c_str(), nullptr, 16));
  }
  const base::Utf8Step step = base::StepUtf8(*text, 0);
  text->remove_prefix(step.length);
  return step.code_point;
}

bool IsInClass(std::string_view brackets, char32_t c) {
  brackets = brackets.substr(1, brackets.size() - 2);
  while (!brackets.empty()) {
    const char32_t first = TakeCharacter(&brackets);
    char32_t last = first;
    if (brackets.size() > 1 && brackets.front() == '-') {
      brackets.remove_prefix(1);
      last = TakeCharacter(&brackets);
    }
    if (first <= c && c <= last) return true;
  }
  return false;
}

}  // namespace

// Reads the text by all ways at once. Each part is read once from each place in the text.
class Ebnf::Beginning {
 public:
  Beginning(const Ebnf& ebnf, std::string_view text) : ebnf_(ebnf), text_(text) {}

  bool Find(Node node) {
    Read(node, 0);
    return found_;
  }

 private:
  using Places = std::set<size_t>;
  static constexpr int kMostDepth = 2'000;
  static constexpr size_t kMostReadings = 20'000;

  // The places in the text to which the node may lead from `at`.
  const Places& Read(Node node, size_t at) {
    const auto [entry, added] = known_.emplace(std::pair(node, at), Places());
    if (!added) return entry->second;
    // Here the answer does not matter any more, or would take too long.
    found_ = found_ || at == text_.size() || depth_ == kMostDepth || known_.size() > kMostReadings;
    if (found_) return entry->second;
    ++depth_;
    entry->second = ReadPart(ebnf_.At(node), at);
    --depth_;
    return entry->second;
  }

  Places ReadPart(const Part& part, size_t at) {
    switch (part.kind) {
      case Kind::kLiteral: {
        const std::string_view rest = text_.substr(at);
        found_ = found_ || std::string_view(part.text).starts_with(rest);
        return rest.starts_with(part.text) ? Places{at + part.text.size()} : Places();
      }
      case Kind::kClass: {
        const base::Utf8Step step = base::StepUtf8(text_, at);
        const bool fits =
            step.kind == base::Utf8Kind::kValid && IsInClass(part.text, step.code_point);
        found_ = found_ || (fits && at + step.length == text_.size());
        return fits ? Places{at + step.length} : Places();
      }
      case Kind::kSequence: {
        Places places = {at};
        for (const Node each : part.parts) places = ReadFrom(each, places);
        return places;
      }
      case Kind::kChoice: {
        Places places;
        for (const Node each : part.parts) places.merge(Places(Read(each, at)));
        return places;
      }
      case Kind::kRepeat:
        return ReadRepeat(part, at);
      case Kind::kCall:
        return Read(*ebnf_.rules_[static_cast<size_t>(part.rule)].body, at);
      case Kind::kToken:
      case Kind::kBehind:
        break;
    }
    return {};
  }

  Places ReadRepeat(const Part& part, size_t at) {
    Places places = {at};
    for (int i = 0; i < part.least; ++i) {
      Places next = ReadFrom(part.parts[0], places);
      if (next == places) break;
      places = std::move(next);
    }
    Places last = places;
    for (int i = part.least; i != part.most && !last.empty() && !found_; ++i) {
      Places next;
      for (const size_t place : ReadFrom(part.parts[0], last)) {
        if (places.insert(place).second) next.insert(place);
      }
      last = std::move(next);
    }
    return places;
  }

  Places ReadFrom(Node node, const Places& places) {
    Places all;
    for (const size_t place : places) all.merge(Places(Read(node, place)));
    return all;
  }

  const Ebnf& ebnf_;
  const std::string_view text_;
  std::map<std::pair<Node, size_t>, Places> known_;
  bool found_ = false;
  int depth_ = 0;
};

bool Ebnf::MayBegin(Node node, std::string_view text) const {
  return Beginning(*this, text).Find(node);
}

}  // namespace ropeway::grammar
