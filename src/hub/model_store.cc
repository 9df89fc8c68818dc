#include "hub/model_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/split_name.h"
#include "base/system.h"
#include "base/utf8.h"
#include "hub/names.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kMaxNote = 4096;

bool HasWeights(const fs::path& name) {
  return name.extension() == kExtension || name.extension() == ".safetensors";
}

fs::path NoteOf(const fs::path& path) {
  return path.parent_path() / ("." + path.filename().string() + ".source");
}

uint64_t FileBytes(const fs::path& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

}  // namespace

fs::path ModelStore::DefaultFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base = cache != nullptr && *cache != '\0'
                            ? fs::path(cache)
                            : fs::path(home != nullptr ? home : ".") / ".cache";
  return base / "ropeway" / "models";
}

// A file of the folder, or a folder in it.
std::optional<ModelStore::Model> ModelStore::ModelAt(const fs::path& path) const {
  const std::string file = path.filename().string();
  if (file.empty() || file.front() == '.') return std::nullopt;
  Model model;
  model.path = path;
  model.name = file;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    bool found = false;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      found = found || HasWeights(entry.path().filename());
      model.bytes += FileBytes(entry.path());
    }
    if (!found) return std::nullopt;
  } else {
    if (!file.ends_with(kExtension) || !fs::exists(path, error)) return std::nullopt;
    model.name = file.substr(0, file.size() - kExtension.size());
    model.bytes = FileBytes(path);
    if (const auto split = base::ParseSplitName(file)) {
      if (split->number != 1) return std::nullopt;
      model.name = split->prefix;
      for (uint32_t part = 2; part <= split->count; ++part) {
        model.bytes += FileBytes(path.parent_path() / split->Part(part));
      }
    }
  }
  const std::string note = base::ReadFile(NoteOf(path).string(), kMaxNote).value_or("");
  model.source = base::PrintableText(note.substr(0, note.find('\n')));
  return model;
}

std::vector<ModelStore::Model> ModelStore::List() const {
  std::vector<Model> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (auto model = ModelAt(entry.path())) models.push_back(*std::move(model));
  }
  std::ranges::sort(models, {}, &Model::name);
  return models;
}

std::optional<ModelStore::Model> ModelStore::Find(std::string_view name) const {
  if (name.empty() || name.find('/') != name.npos) return std::nullopt;
  for (const char* ending : {"", ".gguf"}) {
    if (auto model = ModelAt(folder_ / (std::string(name) + ending))) return model;
  }
  // The first part of a split one.
  const std::vector<Model> all = List();
  const auto at = std::ranges::find(all, name, &Model::name);
  return at == all.end() ? std::nullopt : std::optional<Model>(*at);
}

Status ModelStore::Remove(std::string_view name) {
  const std::optional<Model> model = Find(name);
  if (!model) {
    return {StatusCode::kNotFound,
            fmt::format("there is no model '{}' in {}", base::PrintableText(name.substr(0, 200)),
                        folder_.string())};
  }
  std::vector<fs::path> paths = {model->path, NoteOf(model->path)};
  if (const auto split = base::ParseSplitName(model->path.filename().string())) {
    for (uint32_t part = 2; part <= split->count; ++part) {
      paths.push_back(folder_ / split->Part(part));
    }
  }
  for (const fs::path& path : paths) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
      return {StatusCode::kUnavailable,
              fmt::format("{}: cannot be removed: {}", path.string(), error.message())};
    }
  }
  return {};
}

void ModelStore::Note(const fs::path& path, const std::string& source) {
  std::ofstream(NoteOf(path)) << source << '\n';
}

fs::path ModelStore::PartsOf(std::string_view name) const {
  return folder_ / ".pulls" / std::string(name);
}

}  // namespace ropeway::hub
