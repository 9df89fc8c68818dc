#include "tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace ropeway {
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

// The end of a piece that begins at `at` and that no matcher could end.
size_t CutAfter(std::string_view text, size_t at) {
  size_t end = std::min(text.size(), at + SplitPattern::kCutBytes);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end;
}

}  // namespace

struct SplitPattern::Code {
  CodePtr pcre;
};

// PCRE2 keeps a match's state in objects that no two threads may share, so each call of Split has
// its own; the large JIT stack is only made when a match asks for it.
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
    // Without NO_UTF_CHECK each match would read the whole text again: quadratic.
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
  // A PCRE2 without JIT for this machine gives the same pieces, only later.
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

}  // namespace ropeway
