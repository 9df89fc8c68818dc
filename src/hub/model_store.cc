#include "hub/model_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/random_access_file.h"
#include "base/split_name.h"
#include "base/system.h"
#include "base/utf8.h"
#include "hub/part_file.h"
#include "hub/registry.h"

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

constexpr char kPulls[] = ".pulls";

// The bytes of all files below `folder`; files that vanish meanwhile do not count.
uint64_t BytesBelow(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  auto at = fs::recursive_directory_iterator(folder, error);
  while (!error && at != fs::recursive_directory_iterator()) {
    std::error_code of_file;
    if (at->is_regular_file(of_file)) bytes += FileBytes(at->path());
    at.increment(error);
  }
  return bytes;
}

Status CannotRemove(const fs::path& path, const std::string& why) {
  return {StatusCode::kUnavailable, fmt::format("{}: cannot be removed: {}", path.string(), why)};
}

}  // namespace

StatusOr<PartsLock> PartsLock::Take(const fs::path& folder) {
  std::error_code error;
  // The folder of models may be a link; what Ropeway makes in it is none.
  for (const fs::path& own : {folder.parent_path(), folder}) {
    if (!fs::is_symlink(fs::symlink_status(own, error))) continue;
    return CheckOwnEntry(own);
  }
  fs::create_directories(folder, error);
  if (error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  }
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{}: {}", folder.string(), std::generic_category().message(errno)));
  }
  PartsLock lock(file);
  // Some file systems know no locks of folders (NFS): there each file has its own alone.
  const bool busy = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat mine {};
  struct stat there {};
  // The process that had it may have deleted it, or put the model in its place.
  const bool gone =
      fstat(file, &mine) != 0 || lstat(folder.c_str(), &there) != 0 || mine.st_ino != there.st_ino;
  if (!busy && !gone) return lock;
  return Status(StatusCode::kUnavailable,
                fmt::format("{}: another process is fetching it", folder.string()));
}

PartsLock::~PartsLock() {
  if (folder_ >= 0) close(folder_);
}

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
  model.source = NoteAt(path);
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

std::vector<ModelStore::Partial> ModelStore::ListPartial() const {
  std::vector<Partial> partials;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_ / kPulls, error)) {
    if (auto partial = FindPartial(entry.path().filename().string())) {
      partials.push_back(*std::move(partial));
    }
  }
  std::ranges::sort(partials, {}, &Partial::name);
  return partials;
}

std::optional<ModelStore::Partial> ModelStore::FindPartial(std::string_view name) const {
  if (name.ends_with(kExtension)) name.remove_suffix(kExtension.size());
  if (!IsModelName(name)) return std::nullopt;
  const fs::path path = PartsOf(name);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return std::nullopt;
  return Partial{std::string(name), path, BytesBelow(path)};
}

Status ModelStore::Remove(std::string_view name) {
  const std::optional<Model> model = Find(name);
  const std::optional<Partial> partial = FindPartial(name);
  if (!model && !partial) {
    return {StatusCode::kNotFound,
            fmt::format("model '{}' not found in {}", base::PrintableText(name.substr(0, 200)),
                        folder_.string())};
  }
  std::vector<fs::path> paths;
  std::optional<PartsLock> lock;
  if (partial) {
    StatusOr<PartsLock> taken = PartsLock::Take(partial->path);
    if (!taken.ok()) return taken.status();
    lock.emplace(*std::move(taken));
    paths.push_back(partial->path);
  }
  if (model) {
    paths.push_back(model->path);
    paths.push_back(NoteOf(model->path));
    if (const auto split = base::ParseSplitName(model->path.filename().string())) {
      for (uint32_t part = 2; part <= split->count; ++part) {
        paths.push_back(folder_ / split->Part(part));
      }
    }
  }
  for (const fs::path& path : paths) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return CannotRemove(path, error.message());
  }
  return {};
}

void ModelStore::Note(const fs::path& path, const std::string& source) {
  base::ReplaceFile(NoteOf(path).string(), source + '\n');
}

std::string ModelStore::NoteAt(const fs::path& path) {
  const StatusOr<std::string> note = base::ReadWholeFile(NoteOf(path).string(), kMaxNote);
  return note.ok() ? base::PrintableText(note->substr(0, note->find('\n'))) : "";
}

fs::path ModelStore::PartsOf(std::string_view name) const {
  return folder_ / kPulls / std::string(name);
}

}  // namespace ropeway::hub
