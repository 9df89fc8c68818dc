// For tests: writes SentencePiece's tables of characters (CharMap).
#ifndef ROPEWAY_TOKENIZER_TEST_CHAR_MAP_H_
#define ROPEWAY_TOKENIZER_TEST_CHAR_MAP_H_

#include <map>
#include <string>

namespace ropeway::tokenizer {

// The table of `mappings`, whose texts must have no zero byte.
std::string WriteCharMap(const std::map<std::string, std::string>& mappings);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_CHAR_MAP_H_
