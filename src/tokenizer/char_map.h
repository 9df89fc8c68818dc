// SentencePiece's table of characters and what they are normalized to (nmt_nfkc and others).
#ifndef ROPEWAY_TOKENIZER_CHAR_MAP_H_
#define ROPEWAY_TOKENIZER_CHAR_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::tokenizer {

// Const and thread-safe after construction.
class CharMap {
 public:
  // From tokenizer.ggml.precompiled_charsmap: the number of bytes of a double array (Aoe 1989, in
  // darts-clone's form), the array, then texts that each end in a zero byte. "" maps nothing. The
  // array is not checked as a whole: a wrong one maps to something else, within the texts.
  static StatusOr<CharMap> Create(std::string_view bytes);

  struct Mapping {
    size_t length = 0;  // Bytes that are mapped; 0: none.
    std::string_view to;
  };

  // The longest beginning of text.substr(at) that is mapped.
  Mapping Find(std::string_view text, size_t at) const;

 private:
  CharMap() = default;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_CHAR_MAP_H_
