#include "tokenizer/hf_config_check.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tokenizer/hf_fields.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// transformers' classes whose ids are not those of the pieces in their tokenizer.model.
constexpr std::array<std::string_view, 14> kShiftingClasses = {
    "XLMRobertaTokenizer",  "CamembertTokenizer",     "MBartTokenizer",   "MBart50Tokenizer",
    "NllbTokenizer",        "XGLMTokenizer",          "BarthezTokenizer", "PegasusTokenizer",
    "MarianTokenizer",      "M2M100Tokenizer",        "ErnieMTokenizer",  "PLBartTokenizer",
    "SeamlessM4TTokenizer", "XLMProphetNetTokenizer",
};

Status LacksInConfig(const char* key, const std::string& what) {
  const std::string field = "tokenizer_config.json " + Quoted(key);
  return {StatusCode::kUnimplemented, field + ": " + what + " is not supported", field};
}

}  // namespace

Status CheckTokenizerConfig(const json& config, bool tokenizer_json) {
  if (Member(config, "split_special_tokens") == true) {
    return LacksInConfig("split_special_tokens", "true");
  }
  if (!tokenizer_json && Member(Member(config, "sp_model_kwargs"), "enable_sampling") == true) {
    return LacksInConfig("sp_model_kwargs", "enable_sampling");
  }
  std::string name = TextOf(Member(config, "tokenizer_class"));
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (!tokenizer_json && std::ranges::find(kShiftingClasses, name) != kShiftingClasses.end()) {
    return LacksInConfig("tokenizer_class", Quoted(name) + ", whose ids are not its model's,");
  }
  const json& files = Member(config, "fast_tokenizer_files");
  for (const json& file : files.is_array() ? files : json::array()) {
    if (!tokenizer_json || file == "tokenizer.json") continue;
    return LacksInConfig("fast_tokenizer_files", Quoted(TextOf(file)));
  }
  return {};
}

}  // namespace ropeway::tokenizer
