// Cuts text into the pieces within which BPE merges.
#ifndef ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/split_pattern.h"

namespace ropeway {

// Const and thread-safe after construction.
class PreTokenizer {
 public:
  // By the value of tokenizer.ggml.pre. Fails with one sentence that lists what is supported.
  static StatusOr<PreTokenizer> Create(const std::string& name);

  // The pieces of `text`, in order, together all of it. Views of `text`.
  // REQUIRES: `text` is valid UTF-8.
  std::vector<std::string_view> Split(std::string_view text) const;

  // Whether a piece that is a token is that token, whatever the merges would make of it.
  bool ignore_merges() const { return ignore_merges_; }

  // Whether texts begin with the bos token where the file does not say.
  bool adds_bos() const { return adds_bos_; }

 private:
  PreTokenizer() = default;

  std::vector<SplitPattern> patterns_;  // Each cuts the pieces of the one before.
  bool ignore_merges_ = false;
  bool adds_bos_ = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_
