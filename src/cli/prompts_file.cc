#include "cli/prompts_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace ropeway {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLine = 1 << 20;
constexpr size_t kMaxPrompts = 1000000;
constexpr int kMaxDepth = 8;  // The fields need 2; deeper ones are no use.

// nullopt for what is no JSON, or nested too deep.
std::optional<Json> ParsePrompts(const std::string& line) {
  const auto bounded = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  Json json = Json::parse(line, bounded, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

// Sets one number after the other from an object's fields, and keeps the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <typename T>
  void Integer(const char* name, int64_t least, int64_t most, T* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    // As a float first: an unsigned number beyond int64_t must not wrap.
    if (!field->is_number_integer() || field->get<double>() < static_cast<double>(least) ||
        field->get<double>() > static_cast<double>(most) || field->get<int64_t>() < least) {
      return Wrong(name, fmt::format("a whole number, {} to {}", least, most));
    }
    *value = static_cast<T>(field->get<int64_t>());
  }

  void Number(const char* name, double least, double most, float* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number() || field->get<double>() < least || field->get<double>() > most) {
      return Wrong(name, fmt::format("a number, {:g} to {:g}", least, most));
    }
    *value = field->get<float>();
  }

  void Text(const char* name, std::string* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_string()) return Wrong(name, "a string");
    *value = field->get<std::string>();
  }

  void Texts(const char* name, std::vector<std::string>* values) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    values->clear();
    if (field->is_string()) return values->push_back(field->get<std::string>());
    if (!field->is_array()) return Wrong(name, "a string or an array of strings");
    for (const Json& element : *field) {
      if (!element.is_string()) return Wrong(name, "a string or an array of strings");
      values->push_back(element.get<std::string>());
    }
  }

  // What is wrong; "" where nothing is. Call last: what nobody asked for is wrong too.
  std::string Problem() const {
    if (!problem_.empty()) return problem_;
    for (const auto& [name, value] : object_.items()) {
      bool asked = false;
      for (const std::string& known : known_) asked = asked || known == name;
      if (!asked) {
        return fmt::format("unknown field '{}'; expected one of {}", name, fmt::join(known_, ", "));
      }
    }
    return "";
  }

 private:
  const Json* Find(const char* name) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  void Wrong(const char* name, const std::string& expected) {
    if (problem_.empty()) problem_ = fmt::format("'{}' must be {}", name, expected);
  }

  const Json& object_;
  std::vector<std::string> known_;
  std::string problem_;
};

StatusOr<PromptLine> FromObject(const Json& object, const RunFlags& flags) {
  PromptLine line;
  line.request = MakeRequest(flags);
  RunFlags own = flags;
  SamplingParams& sampling = line.request.sampling;
  int32_t max_tokens = 0;
  int64_t seed = -1;
  Fields fields(object);
  fields.Text("prompt", &line.text);
  fields.Text("system", &own.system);
  fields.Integer("max_tokens", 1, INT32_MAX, &max_tokens);
  fields.Number("temperature", 0, 2, &sampling.temperature);
  fields.Number("top_p", 0, 1, &sampling.top_p);
  fields.Integer("top_k", -1, INT32_MAX, &sampling.top_k);
  fields.Number("min_p", 0, 1, &sampling.min_p);
  fields.Integer("seed", 0, INT64_MAX, &seed);
  fields.Texts("stop", &line.request.stop);
  if (const std::string problem = fields.Problem(); !problem.empty()) {
    return InvalidArgument(problem);
  }
  if (!object.contains("prompt")) return InvalidArgument("the field 'prompt' is missing");
  if (max_tokens > 0) line.request.max_tokens = max_tokens;
  if (seed >= 0) sampling.seed = static_cast<uint64_t>(seed);
  SetPrompt(own, true, line.text, &line.request);
  return line;
}

}  // namespace

StatusOr<std::vector<PromptLine>> ReadPrompts(std::istream& input, const std::string& name,
                                              const RunFlags& flags) {
  std::vector<PromptLine> prompts;
  std::optional<bool> json_lines;  // Decided by the first line.
  std::string text;
  for (size_t number = 1; std::getline(input, text); ++number) {
    const auto at = [&](const std::string& problem) {
      return InvalidArgument(fmt::format("{}:{}: {}", name, number, problem));
    };
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    if (text.size() > kMaxLine) return at(fmt::format("a prompt has at most {} bytes", kMaxLine));
    if (prompts.size() == kMaxPrompts) return at(fmt::format("at most {} prompts", kMaxPrompts));
    const std::optional<Json> json =
        json_lines.value_or(text.front() == '{') ? ParsePrompts(text) : std::nullopt;
    const bool object = json && json->is_object();
    if (!json_lines) json_lines = object;
    if (!*json_lines) {
      PromptLine line = {text, MakeRequest(flags)};
      SetPrompt(flags, true, text, &line.request);
      prompts.push_back(std::move(line));
      continue;
    }
    if (!object) return at("expected a JSON object, as in the first line");
    StatusOr<PromptLine> line = FromObject(*json, flags);
    if (!line.ok()) return at(line.status().message());
    prompts.push_back(*std::move(line));
  }
  if (input.bad()) return InvalidArgument(fmt::format("{} cannot be read", name));
  if (prompts.empty()) return InvalidArgument(fmt::format("{} holds no prompt", name));
  return prompts;
}

}  // namespace ropeway
