#include "tokenizer/hf_post_processor.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "tokenizer/hf_fields.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

constexpr char kPostProcessorField[] = "tokenizer.json \"post_processor\"";

class PostProcessorReader {
 public:
  explicit PostProcessorReader(const std::vector<std::string>& tokens) : tokens_(tokens) {}

  // Returns false after it has set status().
  bool Read(const json& processor);

  const Status& status() const { return status_; }
  const TextEnds& ends() const { return ends_; }

 private:
  bool ReadSequence(const json& processor);
  bool ReadTemplate(const json& processor);
  // The token of a piece of the template; nullopt after it has set status_.
  std::optional<TokenId> SpecialToken(const json& processor, const json& piece);

  bool Broken(const std::string& what) {
    status_ = {StatusCode::kDataLoss, std::string(kPostProcessorField) + ": " + what,
               kPostProcessorField};
    return false;
  }
  bool Lacks(const std::string& what) {
    status_ = {StatusCode::kUnimplemented,
               std::string(kPostProcessorField) + ": " + what + " is not supported",
               kPostProcessorField};
    return false;
  }

  const std::vector<std::string>& tokens_;
  TextEnds ends_;
  bool has_template_ = false;
  Status status_;
};

bool PostProcessorReader::Read(const json& processor) {
  if (processor.is_null()) return true;
  const std::string type = TextOf(Member(processor, "type"));
  if (type == "Sequence") return ReadSequence(processor);
  if (type == "TemplateProcessing") return ReadTemplate(processor);
  if (type != "ByteLevel") return Lacks("type " + Quoted(type));
  // It changes offsets alone, so there are no special tokens.
  if (!ends_.adds_first) ends_.adds_first = false;
  return true;
}

bool PostProcessorReader::ReadSequence(const json& processor) {
  const json& parts = Member(processor, "processors");
  if (!parts.is_array()) return Broken("\"processors\" is no list");
  for (const json& part : parts) {
    if (!Read(part)) return false;
  }
  return true;
}

bool PostProcessorReader::ReadTemplate(const json& processor) {
  if (has_template_) return Lacks("more than one TemplateProcessing");
  has_template_ = true;
  const json& single = Member(processor, "single");
  if (!single.is_array()) return Broken("\"single\" is no list");
  bool text = false;
  for (const json& piece : single) {
    if (const json& sequence = Member(piece, "Sequence"); sequence.is_object()) {
      if (text || TextOf(Member(sequence, "id")) != "A") {
        return Lacks("a TemplateProcessing with another sequence than one A");
      }
      text = true;
      continue;
    }
    std::optional<TokenId>& end = text ? ends_.last : ends_.first;
    if (end) return Lacks("a TemplateProcessing with two tokens on one side of the text");
    end = SpecialToken(processor, piece);
    if (!end) return false;
  }
  if (!text) return Lacks("a TemplateProcessing without the text");
  ends_.adds_first = ends_.first.has_value();
  ends_.adds_last = ends_.last.has_value();
  return true;
}

std::optional<TokenId> PostProcessorReader::SpecialToken(const json& processor, const json& piece) {
  const std::string name = TextOf(Member(Member(piece, "SpecialToken"), "id"));
  if (name.empty()) {
    Broken("a piece of \"single\" is neither a sequence nor a special token");
    return std::nullopt;
  }
  // What the name stands for is said beside the template.
  const json& entry = Member(Member(processor, "special_tokens"), name.c_str());
  if (entry.is_null()) {
    const auto at = std::find(tokens_.begin(), tokens_.end(), name);
    if (at != tokens_.end()) return static_cast<TokenId>(at - tokens_.begin());
    Broken("there is no token " + Quoted(name));
    return std::nullopt;
  }
  const json& ids = Member(entry, "ids");
  if (ids.is_array() && ids.size() > 1) {
    Lacks("the special token " + Quoted(name) + " of several ids");
    return std::nullopt;
  }
  const int64_t id =
      ids.is_array() && !ids.empty() && ids[0].is_number_integer() ? ids[0].get<int64_t>() : -1;
  if (id < 0 || static_cast<uint64_t>(id) >= tokens_.size()) {
    Broken("the id of the special token " + Quoted(name) + " is none of the vocabulary's " +
           std::to_string(tokens_.size()) + " tokens");
    return std::nullopt;
  }
  return static_cast<TokenId>(id);
}

}  // namespace

StatusOr<TextEnds> ReadPostProcessor(const json& processor,
                                     const std::vector<std::string>& tokens) {
  PostProcessorReader reader(tokens);
  if (!reader.Read(processor)) return reader.status();
  return reader.ends();
}

}  // namespace ropeway::tokenizer
