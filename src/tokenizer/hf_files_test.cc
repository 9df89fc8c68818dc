// Every file and field of a folder that transformers' tokenizers and its generation read, and what
// becomes of it here: docs/tokenizers.md has the same table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/test_folder_files.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// What the field does beside a tokenizer.json (a byte-level one) and beside a tokenizer.model.
enum class Does { kNothing, kUsed, kRejected, kWarns, kAbsent };

struct FolderFieldCase {
  const char* file;
  const char* field;
  json value;
  Does beside_json;
  Does beside_model;
};

constexpr Does kNo = Does::kNothing;
constexpr Does kUsed = Does::kUsed;
constexpr Does kRejected = Does::kRejected;
constexpr Does kWarns = Does::kWarns;
constexpr Does kAbsent = Does::kAbsent;

constexpr char kJson[] = "tokenizer.json";
constexpr char kConfig[] = "tokenizer_config.json";
constexpr char kMap[] = "special_tokens_map.json";
constexpr char kAdded[] = "added_tokens.json";
constexpr char kModelConfig[] = "config.json";
constexpr char kGeneration[] = "generation_config.json";

const char* NameOf(Does does) {
  switch (does) {
    case kNo:
      return "no effect";
    case kUsed:
      return "used";
    case kRejected:
      return "rejected";
    case kWarns:
      return "ignored with a warning";
    case kAbsent:
      return "-";
  }
  return "";
}

json TokenOf(const char* text, const char* flag = "special") {
  return {{"content", text}, {flag, true}};
}
json AddedList(const char* flag) {
  json token = TokenOf("<x>", flag);
  token["id"] = 257;
  return json::array({token});
}
json Typed(const char* type) { return {{"type", type}}; }

const std::vector<FolderFieldCase>& FieldCases() {
  const json list = json::array({259});
  const json text = json::array({"<x>"});
  json vocab = BytesFolder()["tokenizer.json"]["model"]["vocab"];
  std::swap(vocab["a"], vocab["b"]);
  const json split = {{"type", "Sequence"},
                      {"pretokenizers",
                       {{{"type", "Digits"}, {"individual_digits", true}},
                        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  const json ends = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<a>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  static const std::vector<FolderFieldCase> kCases = {
      {kJson, "version", "1.1", kNo, kAbsent},
      {kJson, "truncation", {{"max_length", 8}}, kNo, kAbsent},
      {kJson, "padding", {{"pad_id", 3}}, kNo, kAbsent},
      {kJson, "decoder", Typed("WordPiece"), kNo, kAbsent},
      {kJson, "normalizer", Typed("NFC"), kUsed, kAbsent},
      {kJson, "pre_tokenizer", split, kUsed, kAbsent},
      {kJson, "post_processor", ends, kUsed, kAbsent},
      {kJson, "added_tokens", AddedList("special"), kUsed, kAbsent},
      {kJson, "added_tokens[].lstrip", AddedList("lstrip"), kUsed, kAbsent},
      {kJson, "added_tokens[].rstrip", AddedList("rstrip"), kUsed, kAbsent},
      {kJson, "added_tokens[].single_word", AddedList("single_word"), kRejected, kAbsent},
      {kJson, "model.type", "Unigram", kRejected, kAbsent},
      {kJson, "model.vocab", vocab, kUsed, kAbsent},
      {kJson, "model.merges", json::array({"i n"}), kUsed, kAbsent},
      {kJson, "model.unk_token", "a", kUsed, kAbsent},
      {kJson, "model.fuse_unk", true, kNo, kAbsent},
      {kJson, "model.byte_fallback", true, kNo, kAbsent},
      {kJson, "model.ignore_merges", true, kUsed, kAbsent},
      {kJson, "model.dropout", 0.5, kRejected, kAbsent},
      {kJson, "model.continuing_subword_prefix", "##", kRejected, kAbsent},
      {kJson, "model.end_of_word_suffix", "</w>", kRejected, kAbsent},

      {kConfig, "added_tokens_decoder", {{"265", TokenOf("<x>")}}, kUsed, kUsed},
      {kConfig, "bos_token", "<x>", kUsed, kUsed},
      {kConfig, "eos_token", TokenOf("<x>"), kUsed, kUsed},
      {kConfig, "unk_token", "<x>", kUsed, kUsed},
      {kConfig, "sep_token", "<x>", kUsed, kUsed},
      {kConfig, "pad_token", "<x>", kUsed, kUsed},
      {kConfig, "cls_token", TokenOf("<x>", "lstrip"), kUsed, kUsed},
      {kConfig, "mask_token", "<x>", kUsed, kUsed},
      {kConfig, "image_token", "<x>", kUsed, kUsed},
      {kConfig, "additional_special_tokens", text, kUsed, kUsed},
      {kConfig, "extra_special_tokens", {{"image_token", "<x>"}}, kUsed, kUsed},
      {kConfig, "chat_template", "{{ bos_token }}", kUsed, kUsed},
      {kConfig, "add_bos_token", true, kNo, kUsed},
      {kConfig, "add_eos_token", true, kNo, kUsed},
      {kConfig, "legacy", false, kNo, kUsed},
      {kConfig, "add_prefix_space", true, kRejected, kNo},
      {kConfig, "split_special_tokens", true, kRejected, kRejected},
      {kConfig, "sp_model_kwargs", {{"enable_sampling", true}}, kNo, kRejected},
      {kConfig, "tokenizer_class", "XLMRobertaTokenizer", kNo, kRejected},
      {kConfig, "fast_tokenizer_files", json::array({"tokenizer.4.0.json"}), kRejected, kNo},
      {kConfig, "clean_up_tokenization_spaces", true, kNo, kNo},
      {kConfig, "spaces_between_special_tokens", true, kNo, kNo},
      {kConfig, "do_lower_case", true, kNo, kNo},
      {kConfig, "model_max_length", 8, kNo, kNo},
      {kConfig, "max_length", 8, kNo, kNo},
      {kConfig, "padding_side", "left", kNo, kNo},
      {kConfig, "truncation_side", "left", kNo, kNo},
      {kConfig, "model_input_names", text, kNo, kNo},
      {kConfig, "use_default_system_prompt", true, kNo, kNo},
      {kConfig, "fix_mistral_regex", true, kNo, kNo},
      {kConfig, "auto_map", {{"AutoTokenizer", text}}, kNo, kNo},

      {kMap, "bos_token", "<x>", kUsed, kUsed},
      {kMap, "eos_token", TokenOf("<x>", "rstrip"), kUsed, kUsed},
      {kMap, "unk_token", "<x>", kUsed, kUsed},
      {kMap, "sep_token", "<x>", kUsed, kUsed},
      {kMap, "pad_token", "<x>", kUsed, kUsed},
      {kMap, "cls_token", "<x>", kUsed, kUsed},
      {kMap, "mask_token", "<x>", kUsed, kUsed},
      {kMap, "additional_special_tokens", json::array({TokenOf("<x>")}), kUsed, kUsed},
      {kMap, "extra_special_tokens", text, kUsed, kUsed},
      {kAdded, "<x>", 265, kUsed, kUsed},

      {"chat_template.jinja", "", "{{ bos_token }}", kUsed, kUsed},
      {"chat_template.json", "chat_template", "{{ bos_token }}", kUsed, kUsed},

      {kModelConfig, "bos_token_id", 5, kUsed, kUsed},
      {kModelConfig, "eos_token_id", 5, kUsed, kUsed},
      {kModelConfig, "pad_token_id", 5, kNo, kNo},
      {kModelConfig, "tokenizer_class", "T5Tokenizer", kNo, kNo},

      {kGeneration, "eos_token_id", json::array({5, 6}), kUsed, kUsed},
      {kGeneration, "bos_token_id", 5, kNo, kNo},
      {kGeneration, "pad_token_id", 5, kNo, kNo},
      {kGeneration, "suppress_tokens", list, kWarns, kWarns},
      {kGeneration, "begin_suppress_tokens", list, kWarns, kWarns},
      {kGeneration, "bad_words_ids", json::array({list}), kWarns, kWarns},
      {kGeneration, "force_words_ids", json::array({list}), kWarns, kWarns},
      {kGeneration, "constraints", list, kWarns, kWarns},
      {kGeneration, "sequence_bias", json::array({list}), kWarns, kWarns},
      {kGeneration, "forced_bos_token_id", 5, kWarns, kWarns},
      {kGeneration, "forced_eos_token_id", list, kWarns, kWarns},
      {kGeneration, "forced_decoder_ids", json::array({list}), kWarns, kWarns},
      {kGeneration, "no_repeat_ngram_size", 3, kWarns, kWarns},
      {kGeneration, "encoder_no_repeat_ngram_size", 3, kWarns, kWarns},
      {kGeneration, "encoder_repetition_penalty", 1.5, kWarns, kWarns},
      {kGeneration, "exponential_decay_length_penalty", list, kWarns, kWarns},
      {kGeneration, "min_length", 5, kWarns, kWarns},
      {kGeneration, "min_new_tokens", 5, kWarns, kWarns},
      {kGeneration, "stop_strings", text, kWarns, kWarns},
      {kGeneration, "typical_p", 0.5, kWarns, kWarns},
      {kGeneration, "epsilon_cutoff", 0.1, kWarns, kWarns},
      {kGeneration, "eta_cutoff", 0.1, kWarns, kWarns},
      {kGeneration, "top_h", 0.5, kWarns, kWarns},
      {kGeneration, "guidance_scale", 2, kWarns, kWarns},
      {kGeneration, "penalty_alpha", 0.5, kWarns, kWarns},
      {kGeneration, "num_beams", 4, kWarns, kWarns},
      {kGeneration, "num_beam_groups", 2, kWarns, kWarns},
      {kGeneration, "watermarking_config", {{"bias", 2}}, kWarns, kWarns},
      {kGeneration, "dola_layers", "high", kWarns, kWarns},
      {kGeneration, "token_healing", true, kWarns, kWarns},
      {kGeneration, "do_sample", false, kNo, kNo},
      {kGeneration, "max_length", 8, kNo, kNo},
      {kGeneration, "max_new_tokens", 8, kNo, kNo},
      {kGeneration, "length_penalty", 2, kNo, kNo},
      {kGeneration, "diversity_penalty", 0.5, kNo, kNo},
      {kGeneration, "early_stopping", true, kNo, kNo},
      {kGeneration, "renormalize_logits", true, kNo, kNo},
      {kGeneration, "remove_invalid_values", true, kNo, kNo},
      {kGeneration, "use_cache", false, kNo, kNo},
      {kGeneration, "cache_implementation", "static", kNo, kNo},
  };
  return kCases;
}

// The folder with the case's value in it.
FolderFiles WithField(FolderFiles folder, const FolderFieldCase& field) {
  std::string path = field.field;
  path = path.substr(0, path.find("[]"));
  if (path.empty()) {
    folder[field.file] = field.value;
    return folder;
  }
  const bool nested = std::string_view(field.file) == "tokenizer.json";
  if (nested) std::ranges::replace(path, '.', '/');
  if (!folder.contains(field.file)) folder[field.file] = json::object();
  folder[field.file][json::json_pointer("/" + path)] = field.value;
  return folder;
}

void CheckField(FolderFiles folder, const FolderFieldCase& field, Does expected) {
  if (expected == kAbsent) return;
  const std::string what = std::string(field.file) + " " + field.field + ", which is " +
                           NameOf(expected) + " beside " +
                           (folder.contains("tokenizer.model") ? "a model" : "a json");
  const auto before = ReadHfVocabulary(TextsOf(folder));
  ASSERT_TRUE(before.ok()) << before.status().message();
  ASSERT_TRUE(before->warnings.empty()) << before->warnings.front();
  StatusOr<Vocabulary> after = ReadHfVocabulary(TextsOf(WithField(std::move(folder), field)));
  if (expected == kRejected) {
    ASSERT_FALSE(after.ok()) << what;
    EXPECT_EQ(after.status().code(), StatusCode::kUnimplemented) << what;
    const std::string& message = after.status().message();
    std::string name = field.field;
    name = name.substr(name.rfind('.') + 1);
    EXPECT_EQ(message.find(field.file), 0u) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    return;
  }
  ASSERT_TRUE(after.ok()) << what << ": " << after.status().message();
  if (expected == kWarns) {
    ASSERT_EQ(after->warnings.size(), 1u) << what;
    EXPECT_NE(after->warnings[0].find(field.field), std::string::npos) << after->warnings[0];
    EXPECT_NE(after->warnings[0].find(field.file), std::string::npos) << after->warnings[0];
    after->warnings.clear();
  }
  EXPECT_EQ(*after == *before, expected != kUsed) << what;
}

TEST(HfFilesTest, EveryFieldIsUsedOrRejectedOrWarnedOfOrWithoutEffect) {
  FolderFiles pieces = PiecesFolder();
  // Tests what a file says, not defaults.
  pieces["tokenizer_config.json"] = {{"bos_token", nullptr}, {"eos_token", nullptr}};
  FolderFiles ended = PiecesFolder();
  for (const FolderFieldCase& field : FieldCases()) {
    const std::string name = field.field;
    const bool of_ends = name.starts_with("add_") && name.ends_with("s_token");
    FolderFiles model = of_ends ? ended : pieces;
    if (name == "add_bos_token") model["tokenizer_config.json"]["add_bos_token"] = false;
    CheckField(BytesFolder(), field, field.beside_json);
    CheckField(model, field, field.beside_model);
  }
}

// "| `file` | `a`, `b` | used | no effect |" has two fields.
TEST(HfFilesTest, TheDocumentHasTheSameTable) {
  const std::filesystem::path room = std::filesystem::path(__FILE__).parent_path();
  const std::string path = room.parent_path().parent_path() / "docs" / "tokenizers.md";
  std::ifstream document(path);
  ASSERT_TRUE(document) << "there is no " << path;
  std::set<std::string> documented;
  const std::regex row("\\| `([^`]+)` \\| (.*) \\| ([a-z -]+) \\| ([a-z -]+) \\|.*");
  const std::regex name("`([^`]+)`|the file");
  for (std::string line; std::getline(document, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    const std::string names = cells[2];
    for (auto it = std::sregex_iterator(names.begin(), names.end(), name);
         it != std::sregex_iterator(); ++it) {
      documented.insert(cells[1].str() + " " + (*it)[1].str() + ": " + cells[3].str() + ", " +
                        cells[4].str());
    }
  }
  std::set<std::string> tested;
  for (const FolderFieldCase& field : FieldCases()) {
    tested.insert(std::string(field.file) + " " + field.field + ": " + NameOf(field.beside_json) +
                  ", " + NameOf(field.beside_model));
  }
  for (const std::string& each : tested) {
    EXPECT_TRUE(documented.contains(each)) << "docs/tokenizers.md does not say: " << each;
  }
  for (const std::string& each : documented) {
    EXPECT_TRUE(tested.contains(each)) << "no test has what docs/tokenizers.md says: " << each;
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
