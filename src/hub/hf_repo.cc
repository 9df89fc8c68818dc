#include "hub/hf_repo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/split_name.h"
#include "base/system.h"
#include "base/utf8.h"
#include "hub/download.h"
#include "net/base_url.h"
#include "net/http_client.h"

namespace ropeway::hub {
namespace {

using nlohmann::json;

constexpr char kDefaultEndpoint[] = "https://huggingface.co";
constexpr double kListTimeout = 60;  // Seconds.
constexpr int kMaxListRedirects = 5;
// The hub puts 1,000 files on a page.
constexpr int kMaxListPages = 50;
constexpr size_t kMaxToken = 4096;
constexpr size_t kShownFiles = 20;

// What belongs to a model in safetensors, where the repository has it.
constexpr std::array<std::string_view, 13> kSideFiles = {"config.json",
                                                         "generation_config.json",
                                                         "tokenizer.json",
                                                         "tokenizer.model",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "added_tokens.json",
                                                         "chat_template.jinja",
                                                         "chat_template.json",
                                                         "model.safetensors.index.json",
                                                         "modules.json",
                                                         "sentence_bert_config.json",
                                                         kPoolingFile};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Without the end of its line; "" for a text that can be no token, and would be another field of
// the request's head.
std::string TokenOf(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto graphic = [](char c) { return c > ' ' && c < 0x7F; };
  return text.size() <= kMaxToken && std::ranges::all_of(text, graphic) ? text : "";
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

std::string FileOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0.
}

std::string WithoutExtension(const std::string& name) {
  return name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
}

Status RepoError(const Source& source, StatusCode code, const std::string& what) {
  return {code, fmt::format("hf:{}: {}", source.name, what)};
}

// Why a listing was not given.
Status Refusal(const Source& source, const HubAccess& access, const net::HttpClient::Reply& reply) {
  if (reply.status == 0) return RepoError(source, StatusCode::kUnavailable, reply.why);
  // The hub says 401 also for repositories that do not exist.
  if (reply.status == 401 || reply.status == 403) {
    return RepoError(
        source, StatusCode::kUnavailable,
        access.token.empty()
            ? "the repository does not exist, or it requires a token: set HF_TOKEN"
            : "the token does not give access: has its owner accepted the model's terms?");
  }
  if (reply.status == 404) {
    return RepoError(source, StatusCode::kNotFound,
                     fmt::format("repository or revision '{}' not found", source.revision));
  }
  return RepoError(source, StatusCode::kUnavailable,
                   fmt::format("the hub answers {}: {}", reply.status,
                               base::PrintableText(reply.body.substr(0, 200))));
}

// One page of a listing, and where it was in the end.
struct ListPage {
  net::BaseUrl url;
  net::HttpClient::Reply reply;
};

// The page of a renamed repository is behind a redirect; only the hub gets the token.
StatusOr<ListPage> FetchPage(const HubAccess& access, const net::BaseUrl& hub, net::BaseUrl url) {
  for (int redirects = 0;; ++redirects) {
    const auto client = OpenClient(url, net::SameServer(url, hub) ? access.token : "");
    if (!client.ok()) return client.status();
    net::HttpClient::Reply reply = (*client)->Fetch("", "", kListTimeout);
    const bool leads = reply.status >= 300 && reply.status < 400 && !reply.location.empty();
    if (!leads || redirects == kMaxListRedirects) {
      return ListPage{std::move(url), std::move(reply)};
    }
    StatusOr<net::BaseUrl> next = NextUrl(url, reply.location);
    if (!next.ok()) return next.status();
    url = *std::move(next);
  }
}

// Reads what the hub says of one file. null is the same as an absent field.
class EntryFacts {
 public:
  explicit EntryFacts(std::string path) : path_(std::move(path)) {}

  // The first fact that cannot be read. It must not count as absent: what it says is what the file
  // is checked with.
  const Status& status() const { return status_; }

  void Size(const json& object, const char* key, uint64_t* bytes) {
    const json size = object.value(key, json());
    if (size.is_number_unsigned()) {
      *bytes = size.get<uint64_t>();
    } else if (!size.is_null()) {
      Fail(key, "a whole number of bytes");
    }
  }
  void Sum(const json& object, const char* key, std::string* sum) {
    const json oid = object.value(key, json());
    if (oid.is_null()) return;
    const auto read = oid.is_string() ? ParseSha256(oid.get<std::string>()) : std::nullopt;
    if (!read) return Fail(key, "a SHA-256 sum of 64 hexadecimal digits");
    *sum = *read;
  }
  void Fail(std::string_view key, std::string_view expected) {
    if (!status_.ok()) return;
    status_ = {StatusCode::kDataLoss, fmt::format("the hub's list of files: \"{}\" of {} is not {}",
                                                  key, path_, expected)};
  }

 private:
  const std::string path_;
  Status status_;
};

// One entry of a listing; nullopt for a folder, and for names that no model has.
StatusOr<std::optional<RepoFile>> FileOfEntry(const json& entry) {
  if (!entry.is_object() || entry.value("type", json()) != "file") return {std::nullopt};
  const json path = entry.value("path", json());
  if (!path.is_string() || !IsRepoPath(path.get<std::string>())) return {std::nullopt};
  RepoFile file;
  file.path = path.get<std::string>();
  EntryFacts facts(file.path);
  facts.Size(entry, "size", &file.bytes);
  const json lfs = entry.value("lfs", json());
  if (lfs.is_object()) {
    facts.Sum(lfs, "oid", &file.sha256);
    facts.Size(lfs, "size", &file.bytes);
  } else if (!lfs.is_null()) {
    facts.Fail("lfs", "an object");
  }
  if (!facts.status().ok()) return facts.status();
  return {std::move(file)};
}

// Whether an entry is the folder whose one file of a model is kPoolingFile.
bool IsPoolingFolder(const json& entry) {
  return entry.is_object() && entry.value("type", json()) == "directory" &&
         entry.value("path", json()) == FolderOf(kPoolingFile);
}

// What a folder of a repository has.
struct Listing {
  std::vector<RepoFile> files;
  bool pools = false;  // It has the folder of kPoolingFile.
};

// Adds the files of a page's JSON.
Status AddFiles(const Source& source, const std::string& body, Listing* listing) {
  const StatusOr<json> list = base::ReadJson(body, {}, "the hub's list of files");
  if (!list.ok()) {
    return RepoError(source, StatusCode::kDataLoss, base::PrintableText(list.status().message()));
  }
  if (!list->is_array()) {
    return RepoError(source, StatusCode::kDataLoss, "the hub's list of files is not a JSON list");
  }
  for (const json& entry : *list) {
    StatusOr<std::optional<RepoFile>> file = FileOfEntry(entry);
    if (!file.ok()) return RepoError(source, file.status().code(), file.status().message());
    if (file->has_value()) listing->files.push_back(**std::move(file));
    listing->pools = listing->pools || IsPoolingFolder(entry);
  }
  return {};
}

// Adds what is in a folder of the repository, "" for its top.
Status ListFolder(const HubAccess& access, const Source& source, const std::string& folder,
                  Listing* listing) {
  const StatusOr<net::BaseUrl> url = net::ParseFileUrl(access.endpoint);
  if (!url.ok()) return url.status();
  net::BaseUrl root = *url;
  while (root.path.ends_with('/')) root.path.pop_back();
  root.path += fmt::format("/api/models/{}/tree/{}{}{}", source.name, source.revision,
                           folder.empty() ? "" : "/", folder);
  net::BaseUrl at = root;
  for (int pages = 0; pages < kMaxListPages; ++pages) {
    const StatusOr<ListPage> page = FetchPage(access, root, at);
    if (!page.ok()) return RepoError(source, page.status().code(), page.status().message());
    if (page->reply.status != 200) return Refusal(source, access, page->reply);
    if (Status status = AddFiles(source, page->reply.body, listing); !status.ok()) return status;
    const std::string next = NextPage(page->reply.link);
    if (next.empty()) return {};
    StatusOr<net::BaseUrl> url = net::ParseLocation(page->url, next);
    if (!url.ok() || !net::SameServer(*url, page->url)) {
      // Without the rest, a model could lack parts that are there.
      return RepoError(source, StatusCode::kUnavailable,
                       fmt::format("the next page of the hub's list of files is not on the hub: {}",
                                   base::PrintableText(next.substr(0, 200))));
    }
    at = *std::move(url);
  }
  return RepoError(source, StatusCode::kUnavailable,
                   fmt::format("the hub's list of files has more than {} pages", kMaxListPages));
}

const RepoFile* FindFile(const std::vector<RepoFile>& files, std::string_view path) {
  const auto at = std::ranges::find(files, path, &RepoFile::path);
  return at == files.end() ? nullptr : &*at;
}

// The model of one .gguf file, with its other parts.
StatusOr<RepoModel> GgufModel(const Source& source, const std::vector<RepoFile>& files,
                              const RepoFile& first) {
  RepoModel model;
  const std::optional<base::SplitName> split = base::ParseSplitName(first.path);
  if (!split) {
    model.name = WithoutExtension(FileOf(first.path));
    model.files = {first};
    return model;
  }
  model.name = FileOf(split->prefix);
  model.folder = true;
  for (uint32_t part = 1; part <= split->count; ++part) {
    const RepoFile* file = FindFile(files, split->Part(part));
    if (file == nullptr) {
      return RepoError(source, StatusCode::kNotFound,
                       fmt::format("part {} is missing", split->Part(part)));
    }
    model.files.push_back(*file);
  }
  return model;
}

RepoModel SafetensorsModel(const Source& source, const std::vector<RepoFile>& files) {
  RepoModel model;
  model.name = FileOf(source.name);
  model.folder = true;
  for (const std::string_view side : kSideFiles) {
    if (const RepoFile* file = FindFile(files, side)) model.files.push_back(*file);
  }
  for (const RepoFile& file : files) {
    if (file.path.starts_with("model") && file.path.ends_with(".safetensors")) {
      model.files.push_back(file);
    }
  }
  return model;
}

}  // namespace

HubAccess HubAccessFromEnvironment() {
  HubAccess access;
  access.endpoint = Variable("HF_ENDPOINT");
  if (access.endpoint.empty()) access.endpoint = kDefaultEndpoint;
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  access.token = TokenOf(Variable("HF_TOKEN"));
  if (!access.token.empty()) return access;
  std::string path = Variable("HF_TOKEN_PATH");
  if (path.empty()) {
    const std::string home = Variable("HF_HOME");
    path = home.empty() ? Variable("HOME") + "/.cache/huggingface/token" : home + "/token";
  }
  access.token = TokenOf(base::ReadFile(path, kMaxToken).value_or(""));
  return access;
}

StatusOr<std::vector<RepoFile>> ListRepo(const HubAccess& access, const Source& source) {
  Listing listing;
  Status status = ListFolder(access, source, FolderOf(source.file), &listing);
  if (status.ok() && source.file.empty() && listing.pools) {
    status = ListFolder(access, source, FolderOf(kPoolingFile), &listing);
  }
  if (!status.ok()) return status;
  std::ranges::sort(listing.files, {}, &RepoFile::path);
  return std::move(listing.files);
}

std::string NextPage(std::string_view link) {
  while (true) {
    const size_t begin = link.find('<');
    const size_t end = link.find('>', begin);
    if (begin == link.npos || end == link.npos) return "";
    const std::string_view url = link.substr(begin + 1, end - begin - 1);
    link.remove_prefix(end + 1);
    std::string_view about = link.substr(0, link.find('<'));  // Its parameters, to the next URL.
    link.remove_prefix(about.size());
    while (!about.empty()) {
      std::string_view part = about.substr(0, about.find(';'));
      about.remove_prefix(std::min(about.size(), part.size() + 1));
      while (!part.empty() && (part.front() == ' ' || part.front() == ',')) part.remove_prefix(1);
      while (!part.empty() && (part.back() == ' ' || part.back() == ',')) part.remove_suffix(1);
      if (part == "rel=\"next\"" || part == "rel=next") return std::string(url);
    }
  }
}

StatusOr<RepoModel> ChooseFiles(const Source& source, const std::vector<RepoFile>& files) {
  if (!source.file.empty()) {
    const RepoFile* file = FindFile(files, source.file);
    if (file != nullptr && source.file.ends_with(".gguf")) return GgufModel(source, files, *file);
  } else if (FindFile(files, "config.json") != nullptr &&
             (FindFile(files, "model.safetensors") != nullptr ||
              FindFile(files, "model.safetensors.index.json") != nullptr)) {
    return SafetensorsModel(source, files);
  }
  std::vector<const RepoFile*> ggufs;
  for (const RepoFile& file : files) {
    const std::optional<base::SplitName> split = base::ParseSplitName(file.path);
    if (file.path.ends_with(".gguf") && (!split || split->number == 1)) ggufs.push_back(&file);
  }
  if (source.file.empty() && ggufs.size() == 1) return GgufModel(source, files, *ggufs[0]);
  std::vector<std::string> names;
  for (const RepoFile* file : ggufs) {
    if (names.size() < kShownFiles) names.push_back(file->path);
  }
  const std::string there = names.empty() ? "found neither a .gguf file nor a config.json "
                                            "with model.safetensors"
                                          : fmt::format("available: {}", fmt::join(names, ", "));
  return RepoError(source, StatusCode::kNotFound,
                   source.file.empty()
                       ? fmt::format("name one file as hf:{}:FILE; {}", source.name, there)
                       : fmt::format("model '{}' not found; {}", source.file, there));
}

std::string RepoUrl(const HubAccess& access, const Source& source, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", access.endpoint, source.name, source.revision, path);
}

}  // namespace ropeway::hub
