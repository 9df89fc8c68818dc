#include "tokenizer/hf_config_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/hf_fields.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kGenerationName = "generation_config.json";

// A field, and the number that changes nothing.
struct Unapplied {
  const char* name;
  double neutral = 0.0;
};

constexpr std::array<Unapplied, 27> kUnapplied = {{
    {"suppress_tokens"},
    {"begin_suppress_tokens"},
    {"bad_words_ids"},
    {"force_words_ids"},
    {"constraints"},
    {"sequence_bias"},
    {"forced_bos_token_id", -1.0},
    {"forced_eos_token_id", -1.0},
    {"forced_decoder_ids"},
    {"no_repeat_ngram_size"},
    {"encoder_no_repeat_ngram_size"},
    {"encoder_repetition_penalty", 1.0},
    {"exponential_decay_length_penalty"},
    {"min_length"},
    {"min_new_tokens"},
    {"stop_strings"},
    {"typical_p", 1.0},
    {"epsilon_cutoff"},
    {"eta_cutoff"},
    {"top_h", 1.0},
    {"guidance_scale", 1.0},
    {"penalty_alpha"},
    {"num_beams", 1.0},
    {"num_beam_groups", 1.0},
    {"watermarking_config"},
    {"dola_layers"},
    {"token_healing"},
}};

// Whether transformers would do something about it.
bool Counts(const json& value, double neutral) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != neutral;
  return !value.empty() && value != "";
}

constexpr auto kReplace = json::error_handler_t::replace;

class SpecialIdsReader {
 public:
  SpecialIdsReader(size_t tokens, std::vector<std::string>* warnings)
      : tokens_(tokens), warnings_(*warnings) {}

  // The ids of a number or a list of numbers that the vocabulary has. Null: none.
  StatusOr<std::vector<TokenId>> Ids(const json& document, std::string_view file,
                                     const char* field) {
    const json& value = Member(document, field);
    std::vector<TokenId> ids;
    if (value.is_null()) return ids;
    const json one = json::array({value});
    std::string others;
    size_t count = 0;
    for (const json& id : value.is_array() ? value : one) {
      // Only what ends texts must be right.
      if (!id.is_number_integer() && std::string_view(field) == "eos_token_id") {
        const std::string where = std::string(file) + " " + Quoted(field);
        return Status(
            StatusCode::kDataLoss,
            where + ": must be a token id below " + std::to_string(tokens_) + ", or a list of them",
            where);
      }
      if (id.is_number_unsigned() && id.get<uint64_t>() < tokens_) {
        ids.push_back(static_cast<TokenId>(id.get<uint64_t>()));
      } else if (++count <= kMostNamed) {
        others += (others.empty() ? "" : " and ") +
                  base::PrintableText(id.dump(-1, ' ', false, kReplace).substr(0, 64));
      }
    }
    if (count > kMostNamed) others += " and " + std::to_string(count - kMostNamed) + " more";
    if (count > 0) Warn(file, field, others);
    return ids;
  }

 private:
  static constexpr size_t kMostNamed = 4;

  void Warn(std::string_view file, const char* field, const std::string& ids) {
    warnings_.push_back("has " + std::string(field) + " " + ids + " in its " + std::string(file) +
                        ", outside its vocabulary of " + std::to_string(tokens_) +
                        " tokens: it is not used");
  }

  const size_t tokens_;
  std::vector<std::string>& warnings_;
};

}  // namespace

StatusOr<SpecialIds> ReadSpecialIds(const json& config, const json& generation, size_t tokens,
                                    std::vector<std::string>* warnings) {
  SpecialIdsReader reader(tokens, warnings);
  SpecialIds special;
  std::set<TokenId> ends;
  for (const auto& [file, document] :
       {std::pair(kGenerationName, &generation), {kConfigName, &config}}) {
    for (const char* field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      const StatusOr<std::vector<TokenId>> ids = reader.Ids(*document, file, field);
      if (!ids.ok()) return ids.status();
      const std::string_view name = field;
      if (name == "bos_token_id" && file == kConfigName && !ids->empty())
        special.bos = ids->front();
      if (name != "eos_token_id") continue;
      for (const TokenId id : *ids) {
        if (ends.insert(id).second) special.ends.push_back(id);
      }
    }
  }
  return special;
}

void WarnOfEndsWithoutRow(Vocabulary* vocabulary) {
  const size_t rows = vocabulary->tokens.size() - vocabulary->without_row;
  const auto warn = [&](std::optional<bool> adds, std::optional<TokenId> id, const char* how) {
    if (!adds.value_or(false) || !id || static_cast<size_t>(*id) < rows) return;
    vocabulary->warnings.push_back("has no row in its embedding for " +
                                   Quoted(vocabulary->tokens[static_cast<size_t>(*id)]) + " (id " +
                                   std::to_string(*id) + "), so texts " + how + " without it");
  };
  warn(vocabulary->add_bos, vocabulary->bos, "begin");
  warn(vocabulary->add_eos, vocabulary->eos, "end");
}

void WarnOfGeneration(const json& generation, std::vector<std::string>* warnings) {
  for (const auto& [name, neutral] : kUnapplied) {
    if (!Counts(Member(generation, name), neutral)) continue;
    warnings->push_back("has a " + std::string(name) + " in its " + std::string(kGenerationName) +
                        ", which is not applied");
  }
}

namespace {

// transformers' classes whose ids differ from the ids of the pieces in their tokenizer.model.
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
    return LacksInConfig(
        "tokenizer_class",
        Quoted(name) + " without a tokenizer.json (its ids differ from tokenizer.model's)");
  }
  const json& files = Member(config, "fast_tokenizer_files");
  for (const json& file : files.is_array() ? files : json::array()) {
    if (!tokenizer_json || file == "tokenizer.json") continue;
    return LacksInConfig("fast_tokenizer_files", Quoted(TextOf(file)));
  }
  return {};
}

namespace {

// The template named "default" in a list of {"name", "template"}, or else the first one.
const json& DefaultOf(const json& templates) {
  static const json none;
  const json* first = &none;
  for (const json& named : templates) {
    const json& text = Member(named, "template");
    if (!text.is_string()) continue;
    if (Member(named, "name") == "default") return text;
    if (first->is_null()) first = &text;
  }
  return *first;
}

}  // namespace

std::string ReadHfChatTemplate(const json& tokenizer_config, const json& processor,
                               std::vector<std::string>* warnings) {
  const json& own = Member(tokenizer_config, "chat_template");
  const json& text = own.is_array() ? DefaultOf(own) : own;
  if (text.is_string()) return text.get<std::string>();
  if (!own.is_null()) {
    warnings->push_back(
        "has a chat_template in its tokenizer_config.json that is neither a string nor a list of "
        "{\"name\", \"template\"}: it is not used");
    return "";
  }
  const json& of_processor = Member(processor, "chat_template");
  if (!of_processor.is_string() && !of_processor.is_null()) {
    warnings->push_back(
        "has a chat_template in its chat_template.json that is not a string: it is not used");
  }
  return TextOf(of_processor);
}

}  // namespace ropeway::tokenizer
