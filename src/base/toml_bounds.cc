#include "base/toml_bounds.h"

#include <fmt/format.h>

namespace ropeway::base {
namespace {

class TomlScanner {
 public:
  explicit TomlScanner(std::string_view text) : text_(text) {}

  std::optional<TomlFault> Scan() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        word_ = 0;
        line_begins_ = false;
        if (std::optional<TomlFault> fault = SkipString(c)) return fault;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        ++at_;
        if (std::optional<TomlFault> fault = Take(c)) return fault;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<TomlFault> Take(char c) {
    const bool first = line_begins_;
    line_begins_ = c == '\n' || (first && (c == ' ' || c == '\t'));
    switch (c) {
      case '.':
        word_ = 0;
        if (++dots_ < kMaxTomlKeyParts) return std::nullopt;
        return TomlFault{line_, fmt::format("a key has more than {} parts", kMaxTomlKeyParts)};
      case '[':
      case '{':
        dots_ = word_ = 0;
        if (first && depth_ == 0 && c == '[' && !NameFollows()) {
          return TomlFault{line_, "the header of a table has no name"};
        }
        if (++depth_ <= kMaxTomlDepth) return std::nullopt;
        return TomlFault{line_, fmt::format("more than {} brackets are open", kMaxTomlDepth)};
      case ']':
      case '}':
        dots_ = word_ = 0;
        if (depth_ > 0) --depth_;
        return std::nullopt;
      case '\n':
        ++line_;
        [[fallthrough]];
      case '=':
      case ',':
        dots_ = word_ = 0;
        return std::nullopt;
      case ' ':
      case '\t':
        word_ = 0;  // The parts of a key may have space between them.
        return std::nullopt;
      default:
        if (!IsAscii(c)) {
          return TomlFault{line_, "a non-ASCII character is outside of strings and comments"};
        }
        if (++word_ <= kMaxTomlWordBytes) return std::nullopt;
        return TomlFault{line_, fmt::format("a word has more than {} bytes", kMaxTomlWordBytes)};
    }
  }

  // Whether a table's name begins behind the header's '[', which was taken, or behind its "[[".
  bool NameFollows() const {
    size_t at = text_.find_first_not_of(" \t", at_);
    if (at < text_.size() && text_[at] == '[') at = text_.find_first_not_of(" \t", at + 1);
    if (at == std::string_view::npos) return false;
    const char c = text_[at];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '"' || c == '\'';
  }

  static bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

  // REQUIRES: a string begins at at_ with `quote`.
  std::optional<TomlFault> SkipString(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.substr(at_, 3) == three;
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!lines) return std::nullopt;  // It has no end: the parser stops here.
        ++line_;
      }
      ++at_;
      if (c == '\\' && quote == '"') {
        // The space between a line that ends so and the rest of the text is skipped.
        const size_t next = text_.find_first_not_of(" \t\r\n", at_);
        if (lines && next != std::string_view::npos && !IsAscii(text_[next])) {
          return TomlFault{line_, "a non-ASCII character follows a backslash"};
        }
        if (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == quote && !lines) {
        return std::nullopt;
      } else if (c == quote && text_.substr(at_ - 1, 3) == three) {
        at_ += 2;
        // Up to two quotes may end the text itself.
        for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  bool line_begins_ = true;  // Only spaces stand before at_ in its line.
  size_t depth_ = 0;
  size_t dots_ = 0;  // Dots in the key (or number) that is being read.
  size_t word_ = 0;  // Bytes of the word that is being read.
};

}  // namespace

std::optional<TomlFault> FindTomlFault(std::string_view text) { return TomlScanner(text).Scan(); }

}  // namespace ropeway::base
