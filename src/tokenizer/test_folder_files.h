// For tests: the tokenizer's files of small folders.
#ifndef ROPEWAY_TOKENIZER_TEST_FOLDER_FILES_H_
#define ROPEWAY_TOKENIZER_TEST_FOLDER_FILES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// A folder's files by their names, each a JSON document; "tokenizer.model" and
// "chat_template.jinja" are texts.
using FolderFiles = nlohmann::json;

HfTokenizerFiles TextsOf(const FolderFiles& files, size_t rows = 0);

// A byte-level tokenizer.json of the 256 bytes, "he" (256), and the control tokens "<a>" (257) and
// "<b>" (258).
FolderFiles BytesFolder();

// A tokenizer.model of "<unk>", "<s>", "</s>", the bytes (from 3), and these pieces (from 259):
// "▁", "h", "i", "▁h", "hi", "▁hi"; 265 in all.
FolderFiles PiecesFolder();

// The ids of the text, with the tokens that begin and end it.
std::vector<TokenId> IdsIn(const FolderFiles& files, const std::string& text);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_FOLDER_FILES_H_
