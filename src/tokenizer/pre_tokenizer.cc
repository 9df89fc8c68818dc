#include "tokenizer/pre_tokenizer.h"

#include <array>
#include <utility>

#include "base/utf8.h"

namespace ropeway {
namespace {

struct Family {
  std::string_view name;
  std::vector<std::string_view> expressions;  // As Hugging Face's tokenizer files have them.
  bool ignore_merges = false;
  bool adds_bos = false;
};

constexpr std::string_view kDigit = R"(\p{N})";

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {"gpt-2", {kGpt2}},
      {"smollm", {kDigit, kGpt2}},
      {"llama-bpe", {kLlama3}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {"qwen2", {kQwen2}},
  };
  return families;
}

// Other names that converters have written for the same thing.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAliases = {{
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
}};

// PCRE2's \s has U+180E, which Unicode dropped from White_Space in 6.3; the engine that the
// patterns were written for follows Unicode. Inside a class and outside of one.
std::string WithUnicodeSpace(std::string_view expression) {
  constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\') {
      const char escaped = expression[++i];
      const std::string open = escaped == 'S' ? "[^" : "[";
      if (escaped == 's' && in_class) {
        out += kSpace;
      } else if (escaped == 's' || escaped == 'S') {
        out.append(open).append(kSpace).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

Status NotSupported(const std::string& name) {
  std::string names;
  for (const Family& family : Families()) {
    names.append(names.empty() ? "" : ", ").append(family.name);
  }
  return {StatusCode::kUnimplemented,
          "tokenizer.ggml.pre: \"" + PrintableText(name.substr(0, 64)) +
              "\" is not supported; supported: " + names,
          "tokenizer.ggml.pre"};
}

}  // namespace

StatusOr<PreTokenizer> PreTokenizer::Create(const std::string& name) {
  std::string_view canonical = name;
  for (const auto& [alias, meant] : kAliases) {
    if (name == alias) canonical = meant;
  }
  for (const Family& family : Families()) {
    if (family.name != canonical) continue;
    PreTokenizer result;
    for (const std::string_view expression : family.expressions) {
      StatusOr<SplitPattern> pattern = SplitPattern::Create(WithUnicodeSpace(expression));
      if (!pattern.ok()) return Status(StatusCode::kInternal, pattern.status().message());
      result.patterns_.push_back(*std::move(pattern));
    }
    result.ignore_merges_ = family.ignore_merges;
    result.adds_bos_ = family.adds_bos;
    return result;
  }
  return NotSupported(name);
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> pieces = {text};
  for (const SplitPattern& pattern : patterns_) {
    std::vector<std::string_view> finer;
    pattern.Split(pieces, finer);
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace ropeway
