#include "model/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr char kConfig[] = "config.json";
constexpr char kGeneration[] = "generation_config.json";
constexpr char kModules[] = "modules.json";
constexpr char kPooling[] = "1_Pooling/config.json";
constexpr char kSentences[] = "sentence_bert_config.json";
constexpr char kTokenizer[] = "tokenizer_config.json";
constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr base::JsonBounds kConfigBounds = {.max_depth = 16, .max_values = 200'000};
constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr base::JsonBounds kIndexBounds = {.max_depth = 4, .max_values = 1'000'000};
constexpr size_t kMaxShards = 10'000;

bool Exists(const std::string& folder, const char* name) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + name, error);
}

// A file's own name, which leads out of no folder.
bool IsPlainName(std::string_view name) {
  const auto plain = [](char c) { return c > 0x20 && c < 0x7F && c != '/' && c != '\\'; };
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::ranges::all_of(name, plain) && name.ends_with(".safetensors");
}

class FolderReader {
 public:
  FolderReader(const std::string& path, Failures* failures)
      : path_(path), failures_(*failures), builder_(path) {}

  StatusOr<std::unique_ptr<GgufFile>> Read();

 private:
  StatusOr<HfModel> ReadConfig();
  Status ReadPooling(const HfModel& model);
  Status ReadUsualLength(const HfModel& model);
  Status ReadGeneration();
  // The files with weights and, where an index says so, the file of each tensor.
  Status ReadIndex();
  Status ReadWeights();
  Status ReadFile(const std::string& name);
  void CheckIndex();

  Status Error(const std::string& file, const std::string& what) const {
    return {StatusCode::kDataLoss, fmt::format("{}/{}: {}", path_, file, what), file};
  }

  const std::string path_;
  Failures& failures_;
  GgufFile::Builder builder_;
  std::set<std::string> files_;                 // With weights.
  std::map<std::string, std::string> file_of_;  // By the tensor; empty without an index.
  std::vector<HfTensor> tensors_;
  std::vector<std::string> unlisted_;  // Tensors that the index does not say to be in their file.
};

// The first ones of `names`, and how many more there are: a file may have any number.
std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += fmt::format("{}\"{}\"", i > 0 ? ", " : "", base::PrintableText(names[i].substr(0, 64)));
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

StatusOr<std::unique_ptr<GgufFile>> FolderReader::Read() {
  const StatusOr<HfModel> model = ReadConfig();
  if (!model.ok()) failures_.Add(model.status());
  failures_.Add(ReadGeneration());
  Status weights = ReadIndex();
  if (weights.ok()) weights = ReadWeights();
  failures_.Add(weights);
  // What the tensors have to be follows from the configuration.
  if (failures_.ok()) failures_.Add(AddHfTensors(*model, tensors_, &builder_));
  if (!failures_.ok()) return failures_.first();
  return builder_.Build();
}

StatusOr<HfModel> FolderReader::ReadConfig() {
  StatusOr<base::RandomAccessFile> file =
      base::RandomAccessFile::Open(fmt::format("{}/{}", path_, kConfig));
  if (!file.ok()) return file.status();
  StatusOr<json> config = ReadHfFile(path_, kConfig, kMaxConfigBytes, kConfigBounds);
  if (!config.ok()) return config.status();
  builder_.bytes()->AddFile(*std::move(file));  // It decides the answers too.
  FlattenTextConfig(&*config);
  HfFields fields(path_, kConfig, *config);
  const HfModel model = ReadHfConfig(&fields, &builder_);
  failures_.Add(fields.failures());
  if (model.architecture != nullptr) {
    failures_.Add(ReadPooling(model));
    failures_.Add(ReadUsualLength(model));
  }
  builder_.SetString("general.name",
                     base::PrintableText(std::filesystem::path(path_).filename().string()));
  return model;
}

// What sentence-transformers does behind the model: pooling, and perhaps division by the length.
Status FolderReader::ReadPooling(const HfModel& model) {
  if (Exists(path_, kModules)) {
    const StatusOr<json> modules = ReadHfFile(path_, kModules, kMaxConfigBytes, kConfigBounds);
    if (!modules.ok()) return modules.status();
    for (const json& module : *modules) {
      const std::string type =
          module.is_object() && module.contains("type") && module["type"].is_string()
              ? module["type"].get<std::string>()
              : "";
      if (type.ends_with("Transformer") || type.ends_with("Pooling") ||
          type.ends_with("Normalize")) {
        continue;
      }
      return {StatusCode::kUnimplemented,
              fmt::format("{}/{}: a module of type \"{}\" is not supported; Transformer, Pooling "
                          "and Normalize are",
                          path_, kModules, base::PrintableText(type.substr(0, 64))),
              kModules};
    }
  }
  if (!Exists(path_, kPooling)) return {};
  StatusOr<base::RandomAccessFile> file =
      base::RandomAccessFile::Open(fmt::format("{}/{}", path_, kPooling));
  if (!file.ok()) return file.status();
  const StatusOr<json> pooling = ReadHfFile(path_, kPooling, kMaxConfigBytes, kConfigBounds);
  if (!pooling.ok()) return pooling.status();
  builder_.bytes()->AddFile(*std::move(file));  // As config.json.
  HfFields fields(path_, kPooling, *pooling);
  ReadHfPooling(&fields, model, &builder_);
  failures_.Add(fields.failures());
  return {};
}

// Where sentence-transformers cuts texts to encode. What a decoder generates is not cut there.
Status FolderReader::ReadUsualLength(const HfModel& model) {
  if (model.architecture->gguf != std::string_view("bert") || !Exists(path_, kSentences)) return {};
  const StatusOr<json> sentences = ReadHfFile(path_, kSentences, kMaxConfigBytes, kConfigBounds);
  if (!sentences.ok()) return sentences.status();
  constexpr const char* kLowers = "do_lower_case";
  HfFields fields(path_, kSentences, *sentences);
  ReadHfUsualLength(&fields, model, &builder_);
  if (fields.Bool(kLowers, false) && Exists(path_, kTokenizer)) {
    // sentence-transformers does it before the tokenizer, which most often does it too.
    const StatusOr<json> own = ReadHfFile(path_, kTokenizer, kMaxConfigBytes, kConfigBounds);
    if (!own.ok()) return own.status();
    if (own->is_object() && own->contains(kLowers) && (*own)[kLowers] == false) {
      fields.Fail(StatusCode::kUnimplemented, kLowers,
                  fmt::format("true is not supported with false in {}", kTokenizer));
    }
  }
  failures_.Add(fields.failures());
  return {};
}

Status FolderReader::ReadGeneration() {
  if (!Exists(path_, kGeneration)) return {};
  const StatusOr<json> generation = ReadHfFile(path_, kGeneration, kMaxConfigBytes, kConfigBounds);
  if (!generation.ok()) return generation.status();
  HfFields values(path_, kGeneration, *generation);
  ReadHfGeneration(&values, &builder_);
  failures_.Add(values.failures());
  return {};
}

// The single file goes before an index, as in transformers.
Status FolderReader::ReadIndex() {
  const bool single = Exists(path_, kWeights);
  const bool index_too = Exists(path_, kIndex);
  if (single && index_too) {
    builder_.AddWarning(fmt::format(
        "has both {} and {}: only the latter is used, not the files that the index names", kIndex,
        kWeights));
  }
  if (single || !index_too) {
    files_.insert(kWeights);
    return {};
  }
  const StatusOr<json> index = ReadHfFile(path_, kIndex, kMaxIndexBytes, kIndexBounds);
  if (!index.ok()) return index.status();
  const json empty = json::object();
  const json* map = &empty;
  if (index->is_object() && index->contains("weight_map")) map = &(*index)["weight_map"];
  if (!map->is_object() || map->empty()) {
    return Error(kIndex, "weight_map is not an object with the file of each tensor");
  }
  for (const auto& [tensor, name] : map->items()) {
    const std::string shown = base::PrintableText(tensor.substr(0, 64));
    if (!name.is_string() || !IsPlainName(name.get_ref<const std::string&>())) {
      return Error(kIndex, fmt::format("the file of tensor \"{}\" is not the name of a "
                                       ".safetensors file in this folder",
                                       shown));
    }
    files_.insert(name.get<std::string>());
    file_of_.emplace(tensor, name.get<std::string>());
  }
  if (files_.size() > kMaxShards) {
    return Error(
        kIndex, fmt::format("names {} files; at most {} are supported", files_.size(), kMaxShards));
  }
  return {};
}

Status FolderReader::ReadWeights() {
  for (const std::string& name : files_) {
    if (Status status = ReadFile(name); !status.ok()) return status;
  }
  CheckIndex();
  return {};
}

Status FolderReader::ReadFile(const std::string& name) {
  StatusOr<base::RandomAccessFile> file =
      base::RandomAccessFile::Open(fmt::format("{}/{}", path_, name));
  if (!file.ok()) return file.status();
  StatusOr<std::vector<SafeTensor>> tensors = ReadSafetensors(*file);
  if (!tensors.ok()) return tensors.status();
  const size_t number = builder_.bytes()->AddFile(*std::move(file));
  for (SafeTensor& tensor : *tensors) {
    const auto expected = file_of_.find(tensor.name);
    if (!file_of_.empty() && (expected == file_of_.end() || expected->second != name)) {
      unlisted_.push_back(tensor.name);
      continue;
    }
    tensors_.push_back({std::move(tensor), number});
  }
  return {};
}

// The index has the last word. Whether the model lacks a tensor then is found where it is bound.
void FolderReader::CheckIndex() {
  if (!unlisted_.empty()) {
    builder_.AddWarning(fmt::format(
        "has tensors that {} does not list, or lists in another file; they are not used: {}",
        kIndex, FirstOf(unlisted_)));
  }
  if (file_of_.empty() || tensors_.size() == file_of_.size()) return;
  std::set<std::string_view> found;
  for (const HfTensor& t : tensors_) found.insert(t.tensor.name);
  std::vector<std::string> missing;
  for (const auto& [tensor, name] : file_of_) {
    if (found.count(tensor) == 0) missing.push_back(tensor);
  }
  if (missing.empty()) return;
  builder_.AddWarning(
      fmt::format("has a {} that lists tensors that are missing from their files: {}", kIndex,
                  FirstOf(missing)));
}

}  // namespace

bool IsHfFolder(const std::string& path) {
  return Exists(path, kConfig) && (Exists(path, kWeights) || Exists(path, kIndex));
}

StatusOr<std::unique_ptr<GgufFile>> OpenHfFolder(const std::string& path, Failures* failures) {
  return FolderReader(path, failures).Read();
}

}  // namespace ropeway::model
