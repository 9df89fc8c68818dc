#include "hub/pull.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <system_error>

#include "base/random_access_file.h"
#include "base/split_name.h"
#include "base/utf8.h"
#include "hub/part_file.h"
#include "hub/python_packages.h"
#include "net/base_url.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyChunk = size_t{4} << 20;

// One file of a model.
struct Item {
  std::string file;  // Its path in the model's folder: its name, or kPoolingFile.
  uint64_t bytes = 0;
  std::string sha256 = {};
  std::string url = {};  // Where it is; or, where that is "", ...
  fs::path path = {};    // ... a file of this machine.
};

// What is to be fetched.
struct Plan {
  std::string name;  // The model's name.
  bool folder = false;
  std::vector<Item> items;
  const RegistryModel* packages = nullptr;  // Its packages have the one item.
};

// What is noted beside the model.
std::string SourceText(const Source& source, const std::vector<RegistryModel>& registry) {
  switch (source.kind) {
    case Source::Kind::kRepo:
      return fmt::format("hf:{}@{}{}{}", source.name, source.revision,
                         source.file.empty() ? "" : ":", source.file);
    case Source::Kind::kPath: {
      std::error_code error;
      const fs::path whole = fs::absolute(source.name, error);
      return error ? source.name : whole.string();
    }
    case Source::Kind::kRegistry:
      if (const RegistryModel* model = FindModel(registry, source.name)) return model->name;
      break;
    case Source::Kind::kUrl:
      break;
  }
  return source.name;
}

Status Failed(const fs::path& path, const std::error_code& error) {
  return {StatusCode::kUnavailable, fmt::format("{}: {}", path.string(), error.message())};
}

// Gives `from` the name `to`, in place of what has it. This is one step for a file, and for a
// folder where the file system can exchange two names: then what was there is at `from`, else at
// `old`.
Status Replace(const fs::path& from, const fs::path& to, const fs::path& old) {
  std::error_code error;
  if (fs::is_directory(to, error)) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
    fs::rename(to, old, error);
    if (error) return Failed(to, error);
  }
  fs::rename(from, to, error);
  return error ? Failed(to, error) : Status();
}

// Whether the file is there, with the size and the sum that the item says.
bool IsWhole(const Item& item, const fs::path& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error || (item.bytes > 0 && item.bytes != bytes)) return false;
  if (item.sha256.empty()) return true;
  const StatusOr<std::string> sum = FileSha256(path);
  return sum.ok() && *sum == item.sha256;
}

Status TooManyFiles(const std::string& path, const base::SplitName& split) {
  return InvalidArgument(fmt::format("{}: the name says {} files; at most {} are supported",
                                     base::PrintableText(path), split.count, base::kMaxSplitFiles));
}

class Puller {
 public:
  Puller(const Source& source, const PullOptions& options, ModelStore* store)
      : source_(source),
        options_(options),
        store_(*store),
        from_(SourceText(source, options.registry)) {}

  StatusOr<ModelStore::Model> Run();

 private:
  Status MakePlan(const Source& source);
  Status PlanRegistry(const Source& source);
  Status PlanRepo(const Source& source);
  Status PlanUrl(const Source& source);
  Status PlanPath(const Source& source);
  Status PlanName();
  StatusOr<bool> Keeps(const ModelStore::Model& there);
  Status OtherModel(const ModelStore::Model& there, const std::string& why) const;
  bool HasSum() const { return !plan_.folder && !plan_.items.front().sha256.empty(); }
  bool IsAsPlanned(const fs::path& model) const;
  Status CheckParts() const;
  Status CheckAllSpace() const;
  Status FetchAll();
  Status CheckWhole();
  Status Fetch(const Item& item, const fs::path& to);
  Status Copy(const Item& item, const fs::path& part, Progress* progress);

  // Where the model is in the end.
  fs::path Place() const {
    return store_.folder() / (plan_.folder ? plan_.name : plan_.items.front().file);
  }
  fs::path Parts() const { return store_.PartsOf(plan_.name); }
  // Where files are until all of them are there.
  fs::path WholeFolder() const { return Parts() / "whole"; }
  fs::path Whole(const Item& item) const { return WholeFolder() / item.file; }
  // The model that they are then.
  fs::path WholeModel() const { return plan_.folder ? WholeFolder() : Whole(plan_.items.front()); }

  const Source& source_;
  const PullOptions& options_;
  ModelStore& store_;
  const std::string from_;
  Plan plan_;
};

StatusOr<ModelStore::Model> Puller::Run() {
  if (Status status = MakePlan(source_); !status.ok()) return status;
  if (Status status = PlanName(); !status.ok()) return status;
  if (const auto there = store_.Find(plan_.name)) {
    const StatusOr<bool> keeps = Keeps(*there);
    if (!keeps.ok()) return keeps.status();
    if (*keeps) return *there;
  }
  const StatusOr<PartsLock> lock = PartsLock::Take(Parts());
  if (!lock.ok()) return lock.status();
  if (Status status = CheckParts(); !status.ok()) return status;
  std::error_code error;
  // What came from elsewhere for a model of this name is no part of this one.
  if (ModelStore::NoteAt(WholeFolder()) != from_) fs::remove_all(WholeFolder(), error);
  Status status = CheckAllSpace();
  if (status.ok()) status = FetchAll();
  if (!status.ok()) {
    fs::remove(Parts(), error);  // If nothing has come.
    return status;
  }
  store_.Note(Place(), from_);
  fs::remove_all(Parts(), error);
  const std::optional<ModelStore::Model> model = store_.Find(plan_.name);
  if (model) return *model;
  return Status(StatusCode::kInternal,
                fmt::format("{}: is missing after the pull", Place().string()));
}

// Whether the model of the name that is there is the one that was asked for. If it was but is
// damaged, the user is told that it is fetched again.
StatusOr<bool> Puller::Keeps(const ModelStore::Model& there) {
  if (there.path != Place() || (!there.source.empty() && there.source != from_)) {
    return OtherModel(there, there.source.empty() ? "" : "from " + there.source);
  }
  if (there.source.empty()) {
    // Copied by hand, or by a script: without a sum it is not known what it is.
    if (!HasSum()) {
      return OtherModel(there,
                        "of unknown origin, and the requested model has no SHA-256 sum "
                        "to compare it with");
    }
    if (!IsAsPlanned(there.path)) {
      return OtherModel(there, "its size or SHA-256 sum differs from the requested model's");
    }
    store_.Note(there.path, from_);
    return true;
  }
  const Status opens = options_.check(there.path.string());
  if (opens.ok() && IsAsPlanned(there.path)) return true;
  options_.write(fmt::format(
      "{} is fetched again: {}\n", plan_.name,
      opens.ok() ? "its size or SHA-256 sum is not the expected one" : opens.message()));
  return false;
}

Status Puller::OtherModel(const ModelStore::Model& there, const std::string& why) const {
  return InvalidArgument(fmt::format(
      "model '{}' already exists ({}): remove it (ropeway models rm {}) or choose another --name",
      plan_.name, why.empty() ? there.path.string() : why, plan_.name));
}

// Whether the files of a model, in its place or about to come there, have the sizes and sums that
// the source says. What it has now may be another model than before.
bool Puller::IsAsPlanned(const fs::path& model) const {
  return std::ranges::all_of(plan_.items, [&](const Item& item) {
    return IsWhole(item, plan_.folder ? model / item.file : model);
  });
}

Status Puller::MakePlan(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kRegistry:
      return PlanRegistry(source);
    case Source::Kind::kRepo:
      return PlanRepo(source);
    case Source::Kind::kUrl:
      return PlanUrl(source);
    case Source::Kind::kPath:
      return PlanPath(source);
  }
  return {};
}

Status Puller::PlanRegistry(const Source& source) {
  const RegistryModel* model = FindModel(options_.registry, source.name);
  if (model == nullptr) {
    std::vector<std::string_view> names;
    for (const RegistryModel& known : options_.registry) names.push_back(known.name);
    return {StatusCode::kNotFound,
            fmt::format("model '{}' is not in the registry; available: {}. Other models: "
                        "hf:OWNER/REPO[:FILE], a URL or a path",
                        source.name, fmt::join(names, ", "))};
  }
  if (!model->source.empty()) {
    const StatusOr<Source> elsewhere = ParseSource(model->source);
    if (!elsewhere.ok()) return elsewhere.status();
    if (elsewhere->kind == Source::Kind::kRegistry) {
      return {StatusCode::kDataLoss,
              fmt::format("the registry's source of '{}' must not be the name of another model",
                          source.name)};
    }
    if (Status status = MakePlan(*elsewhere); !status.ok()) return status;
    if (!plan_.folder) {
      plan_.items.front().file = model->file;
      if (!model->sha256.empty()) plan_.items.front().sha256 = model->sha256;
    }
  } else {
    plan_.packages = model;
    plan_.items.push_back({.file = model->file,
                           .bytes = model->sha256.empty() ? 0 : model->bytes,
                           .sha256 = model->sha256});
  }
  plan_.name = plan_.folder ? model->name : fs::path(model->file).stem().string();
  return {};
}

Status Puller::PlanRepo(const Source& source) {
  const StatusOr<std::vector<RepoFile>> files = ListRepo(options_.access, source);
  if (!files.ok()) return files.status();
  const StatusOr<RepoModel> model = ChooseFiles(source, *files);
  if (!model.ok()) return model.status();
  plan_.name = model->name;
  plan_.folder = model->folder;
  for (const RepoFile& file : model->files) {
    const bool pools = model->folder && file.path == kPoolingFile;
    plan_.items.push_back({.file = pools ? file.path : fs::path(file.path).filename().string(),
                           .bytes = file.bytes,
                           .sha256 = file.sha256,
                           .url = RepoUrl(options_.access, source, file.path)});
  }
  return {};
}

Status Puller::PlanUrl(const Source& source) {
  const StatusOr<net::BaseUrl> url = net::ParseFileUrl(source.name);
  if (!url.ok()) return url.status();
  const std::string path = url->path.substr(0, url->path.find('?'));
  const std::string query = url->path.substr(path.size());
  const std::string file = fs::path(path).filename().string();
  if (!IsModelName(file) || !file.ends_with(".gguf")) {
    return InvalidArgument(fmt::format("{}: the URL does not end in the name of a .gguf file",
                                       base::PrintableText(source.name)));
  }
  plan_.name = fs::path(file).stem().string();
  net::BaseUrl root = *url;
  root.path.clear();
  const std::optional<base::SplitName> split = base::ParseSplitName(path);
  if (split && split->count > base::kMaxSplitFiles) return TooManyFiles(path, *split);
  if (!split) {
    plan_.items.push_back({.file = file, .sha256 = source.sha256, .url = source.name});
    return {};
  }
  if (!source.sha256.empty()) {
    return InvalidArgument("#sha256= is only supported for models of one file");
  }
  plan_.folder = true;
  plan_.name = fs::path(split->prefix).filename().string();
  for (uint32_t part = 1; part <= split->count; ++part) {
    plan_.items.push_back({.file = fs::path(split->Part(part)).filename().string(),
                           .url = root.Text() + split->Part(part) + query});
  }
  return {};
}

Status Puller::PlanPath(const Source& source) {
  const fs::path path = source.name;
  fs::path to_check = path;
  std::error_code error;
  const auto add = [&](const fs::path& from) {
    plan_.items.push_back({.file = from.filename().string(), .path = from});
  };
  if (fs::is_directory(path, error)) {
    plan_.folder = true;
    plan_.name = (path.filename().empty() ? path.parent_path() : path).filename().string();
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const std::string file = entry.path().filename().string();
      const bool wanted = file.ends_with(".safetensors") || file.ends_with(".gguf") ||
                          file.ends_with(".json") || file == "tokenizer.model" ||
                          file == "chat_template.jinja";
      if (wanted && IsModelName(file) && entry.is_regular_file(error)) add(entry.path());
    }
    if (fs::is_regular_file(path / kPoolingFile, error)) {
      add(path / kPoolingFile);
      plan_.items.back().file = kPoolingFile;
    }
    std::ranges::sort(plan_.items, {}, &Item::file);
  } else if (const auto split = base::ParseSplitName(path.string())) {
    if (split->count > base::kMaxSplitFiles) return TooManyFiles(path.string(), *split);
    plan_.folder = true;
    plan_.name = fs::path(split->prefix).filename().string();
    to_check = split->Part(1);
    for (uint32_t part = 1; part <= split->count; ++part) add(split->Part(part));
  } else {
    // Models are found by their extension.
    const std::string file = path.filename().string();
    plan_.name = file.ends_with(".gguf") ? path.stem().string() : file;
    add(path);
    plan_.items.front().file = plan_.name + ".gguf";
  }
  if (plan_.items.empty()) {
    return {StatusCode::kNotFound, fmt::format("{}: contains no model", source.name)};
  }
  for (Item& item : plan_.items) {
    const StatusOr<base::RandomAccessFile> file = base::RandomAccessFile::Open(item.path.string());
    if (!file.ok()) return file.status();
    item.bytes = file->bytes();
  }
  return options_.check(to_check.string());
}

// The name that was asked for, and a file of that name.
Status Puller::PlanName() {
  if (!options_.name.empty()) {
    plan_.name = options_.name;
    if (plan_.name.ends_with(".gguf")) plan_.name.resize(plan_.name.size() - 5);
    if (!plan_.folder) plan_.items.front().file = plan_.name + ".gguf";
    for (const auto* registry : {&options_.registry, &BuiltInRegistry()}) {
      const auto known = std::ranges::find(*registry, plan_.name, &RegistryModel::name);
      if (known == registry->end() || from_ == known->name) continue;
      return InvalidArgument(
          fmt::format("--name: '{}' is the name of another model in the registry; choose a "
                      "different name for {}",
                      plan_.name, base::PrintableText(source_.name)));
    }
  }
  if (!IsModelName(plan_.name)) {
    return InvalidArgument(
        fmt::format("'{}' is not a valid model name: use --name with letters, digits, dots, "
                    "dashes and underscores",
                    base::PrintableText(plan_.name.substr(0, 200))));
  }
  if (options_.sha256.empty()) return {};
  if (plan_.items.size() != 1) {
    return InvalidArgument("--sha256 is only supported for models of one file");
  }
  const std::optional<std::string> sum = ParseSha256(options_.sha256);
  if (!sum) return InvalidArgument("--sha256: expected 64 hexadecimal digits");
  plan_.items.front().sha256 = *sum;
  return {};
}

// What an earlier pull has left is written to, or moved: it must be Ropeway's own.
Status Puller::CheckParts() const {
  const fs::path pooling = fs::path(kPoolingFile).parent_path();
  for (const fs::path& folder :
       {Parts(), Parts() / pooling, WholeFolder(), WholeFolder() / pooling}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (Status status = CheckOwnEntry(entry.path()); !status.ok()) return status;
    }
  }
  return {};
}

Status Puller::CheckAllSpace() const {
  uint64_t bytes = 0;
  for (const Item& item : plan_.items) {
    std::error_code error;
    if (fs::exists(Whole(item), error)) continue;
    const uint64_t here = fs::file_size(Parts() / item.file, error);
    const uint64_t arrived = error ? 0 : std::min<uint64_t>(here, item.bytes);
    bytes = AddSizes(bytes, item.bytes - arrived);
  }
  // Packages are there beside the model until it is whole.
  if (plan_.packages != nullptr) bytes = AddSizes(plan_.packages->bytes, plan_.packages->bytes);
  return CheckSpace(Parts(), bytes);
}

Status Puller::FetchAll() {
  for (const Item& item : plan_.items) {
    // An earlier attempt may have left it.
    if (IsWhole(item, Whole(item))) continue;
    if (Status status = Fetch(item, Whole(item)); !status.ok()) return status;
    store_.Note(WholeFolder(), from_);
  }
  if (Status status = CheckWhole(); !status.ok()) return status;
  if (Status status = Replace(WholeModel(), Place(), Parts() / "old"); !status.ok()) return status;
  return SyncPath(store_.folder());
}

// Some servers say "200" to an error, and not how long what they send is. What is no model goes.
Status Puller::CheckWhole() {
  const Status opens = options_.check(WholeModel().string());
  if (opens.ok()) return {};
  std::error_code error;
  fs::remove_all(Parts(), error);
  std::string why = opens.message();
  const std::string folder = WholeFolder().string() + "/";
  if (why.starts_with(folder)) why.erase(0, folder.size());
  return {StatusCode::kDataLoss,
          fmt::format("{}: the fetched data is not a valid model and was deleted: {}", from_, why)};
}

Status Puller::Fetch(const Item& item, const fs::path& to) {
  Progress progress(item.file, options_.terminal, options_.write, options_.tell);
  const fs::path part = Parts() / item.file;
  std::error_code error;
  fs::create_directories(part.parent_path(), error);
  if (error) return Failed(part.parent_path(), error);
  if (!item.url.empty()) {
    const bool of_hub = item.url.starts_with(options_.access.endpoint + "/");
    return Download({.url = item.url,
                     .token = of_hub ? options_.access.token : "",
                     .takes_token = of_hub,
                     .to = to,
                     .part = part,
                     .bytes = item.bytes,
                     .sha256 = item.sha256},
                    options_.download, &progress);
  }
  Status status = plan_.packages != nullptr
                      ? FetchPackages(plan_.packages->packages, Parts() / "packages", part)
                      : Copy(item, part, &progress);
  progress.End();
  if (!status.ok()) return status;
  if (!item.sha256.empty()) {
    const StatusOr<std::string> sum = FileSha256(part);
    if (!sum.ok()) return sum.status();
    if (*sum != item.sha256) {
      fs::remove(part, error);
      return {StatusCode::kDataLoss,
              fmt::format("{}: the SHA-256 sum is {}, expected {}", item.file, *sum, item.sha256)};
    }
  }
  if (status = SyncPath(part); !status.ok()) return status;
  fs::create_directories(to.parent_path(), error);
  fs::rename(part, to, error);
  return error ? Failed(to, error) : SyncPath(to.parent_path());
}

Status Puller::Copy(const Item& item, const fs::path& part, Progress* progress) {
  const StatusOr<base::RandomAccessFile> from = base::RandomAccessFile::Open(item.path.string());
  if (!from.ok()) return from.status();
  std::ofstream to(part, std::ios::binary | std::ios::trunc);
  std::vector<char> chunk(kCopyChunk);
  progress->Start(0, from->bytes());
  for (uint64_t at = 0; at < from->bytes();) {
    const uint64_t bytes = std::min<uint64_t>(chunk.size(), from->bytes() - at);
    const auto span = std::span(chunk).first(static_cast<size_t>(bytes));
    if (Status status = from->Read(at, std::as_writable_bytes(span)); !status.ok()) return status;
    to.write(span.data(), static_cast<std::streamsize>(bytes));
    if (!to) {
      return {StatusCode::kUnavailable, fmt::format("{}: cannot be written", part.string())};
    }
    at += bytes;
    progress->Set(at);
  }
  to.close();
  if (!to) return {StatusCode::kUnavailable, fmt::format("{}: cannot be written", part.string())};
  return from->CheckUnchanged();
}

}  // namespace

StatusOr<ModelStore::Model> Pull(const Source& source, const PullOptions& options,
                                 ModelStore* store) {
  return Puller(source, options, store).Run();
}

std::optional<ModelStore::Model> FindPulled(const Source& source,
                                            const std::vector<RegistryModel>& registry,
                                            const ModelStore& store) {
  if (source.kind == Source::Kind::kPath) return std::nullopt;
  if (source.kind == Source::Kind::kRegistry) {
    const RegistryModel* model = FindModel(registry, source.name);
    if (model == nullptr) return std::nullopt;
    if (auto found = store.Find(model->file)) return found;
  }
  const std::string text = SourceText(source, registry);
  const std::vector<ModelStore::Model> models = store.List();
  const auto at = std::ranges::find(models, text, &ModelStore::Model::source);
  return at == models.end() ? std::nullopt : std::optional<ModelStore::Model>(*at);
}

}  // namespace ropeway::hub
