#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/utf8.h"

namespace ropeway::tokenizer {
namespace {

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using CodePtr = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStackPtr = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

constexpr size_t kFirstJitStackBytes = size_t{32} << 10U;

// The end of the piece at `at` whose match exceeded the limits.
size_t CutAfter(std::string_view text, size_t at) {
  size_t end = std::min(text.size(), at + SplitPattern::kCutBytes);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end;
}

struct Family {
  std::string_view name;
  std::vector<std::string_view> expressions;  // As in Hugging Face's tokenizer files.
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

// Other names that converters have used.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAliases = {{
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
}};

// Replaces \s and \S: PCRE2's \s includes U+180E, which Unicode removed from White_Space in 6.3,
// and the engine that the patterns were written for follows Unicode.
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
          "tokenizer.ggml.pre: \"" + base::PrintableText(name.substr(0, 64)) +
              "\" is not supported; supported: " + names,
          "tokenizer.ggml.pre"};
}

}  // namespace

struct SplitPattern::Code {
  CodePtr pcre;
};

// PCRE2's match state must not be shared between threads, so each call of Split has its own; the
// large JIT stack is only allocated when a match needs it.
class SplitPattern::Matcher {
 public:
  Matcher(const pcre2_code* code, const Limits& limits)
      : code_(code),
        limits_(limits),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(context_.get(), limits.heap_limit_kib);
    pcre2_set_match_limit(context_.get(), limits.match_limit);
  }

  void Split(std::string_view text, std::vector<std::string_view>& pieces) {
    size_t at = 0;
    while (at < text.size()) {
      const int result = Match(text, at);
      size_t begin = at;
      size_t end = text.size();
      if (result > 0) {
        const size_t* const ends = pcre2_get_ovector_pointer(data_.get());
        begin = ends[0];
        end = ends[1];
      } else if (result != PCRE2_ERROR_NOMATCH) {
        ++detours_.cut;
        end = CutAfter(text, at);
      }
      if (begin > at) pieces.push_back(text.substr(at, begin - at));
      pieces.push_back(text.substr(begin, end - begin));
      at = end;
    }
  }

  const Detours& detours() const { return detours_; }

 private:
  int Match(std::string_view text, size_t at) {
    int result = MatchOnce(text, at, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && jit_stack_ == nullptr) {
      ++detours_.large_stack;
      jit_stack_.reset(
          pcre2_jit_stack_create(std::min(kFirstJitStackBytes, limits_.jit_stack_bytes),
                                 limits_.jit_stack_bytes, nullptr));
      if (jit_stack_ != nullptr) {
        pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
        result = MatchOnce(text, at, 0);
      }
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      ++detours_.interpreted;
      result = MatchOnce(text, at, PCRE2_NO_JIT);
    }
    return result;
  }

  int MatchOnce(std::string_view text, size_t at, uint32_t options) {
    // Without NO_UTF_CHECK each match would check the whole text again: quadratic.
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       options | PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  }

  const pcre2_code* code_;
  Limits limits_;
  MatchDataPtr data_;
  MatchContextPtr context_;
  JitStackPtr jit_stack_;
  Detours detours_;
};

SplitPattern::SplitPattern(std::shared_ptr<const Code> code, Limits limits)
    : code_(std::move(code)), limits_(limits) {}

StatusOr<SplitPattern> SplitPattern::Create(const std::string& expression, Limits limits) {
  int error = 0;
  size_t where = 0;
  CodePtr pcre(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                             PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (pcre == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return InvalidArgument("the pattern is wrong at byte " + std::to_string(where) + ": " +
                           reinterpret_cast<const char*>(text.data()));
  }
  // Without JIT for this machine the pieces are the same, only slower.
  pcre2_jit_compile(pcre.get(), PCRE2_JIT_COMPLETE);
  auto code = std::make_shared<Code>();
  code->pcre = std::move(pcre);
  return SplitPattern(std::move(code), limits);
}

SplitPattern::Detours SplitPattern::Split(const std::vector<std::string_view>& texts,
                                          std::vector<std::string_view>& pieces) const {
  Matcher matcher(code_->pcre.get(), limits_);
  for (const std::string_view text : texts) matcher.Split(text, pieces);
  return matcher.detours();
}

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

}  // namespace ropeway::tokenizer
