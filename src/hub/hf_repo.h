// Repositories of the Hugging Face hub, by its documented URLs.
#ifndef ROPEWAY_HUB_HF_REPO_H_
#define ROPEWAY_HUB_HF_REPO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hub/registry.h"
#include "ropeway/status.h"

namespace ropeway::hub {

// Where the hub is, and the token to ask it with.
struct HubAccess {
  std::string endpoint;  // Without a trailing slash.
  std::string token;     // "": none.
};

// From HF_ENDPOINT, HF_TOKEN and the file that `huggingface-cli login` writes ($HF_TOKEN_PATH, or
// "token" in $HF_HOME or ~/.cache/huggingface).
HubAccess HubAccessFromEnvironment();

struct RepoFile {
  std::string path;  // In the repository.
  uint64_t bytes = 0;
  std::string sha256;  // "": the hub does not say (of small files).
};

// What a source stands for.
struct RepoModel {
  std::string name;             // What it is called in the folder of models.
  bool folder = false;          // It takes a folder of its own: more files than one.
  std::vector<RepoFile> files;  // In the order in which they are fetched.
};

// How sentence-transformers pools what a model computes, beside the model's folder.
inline constexpr char kPoolingFile[] = "1_Pooling/config.json";

// The files at the top of the repository and in the folder of kPoolingFile (or those in the folder
// of source.file), from all pages of the hub's lists. kNotFound, kUnavailable or kDataLoss with a
// sentence.
StatusOr<std::vector<RepoFile>> ListRepo(const HubAccess& access, const Source& source);

// The URL that the field Link of a reply calls the next page, <URL>; rel="next"; "" if it has none.
std::string NextPage(std::string_view link);

// Chooses the files of the model: the file that is named, with all its parts if it is split; else
// the safetensors with what belongs to them; else the only GGUF model. kNotFound if there is none
// or several; the message lists what there is.
StatusOr<RepoModel> ChooseFiles(const Source& source, const std::vector<RepoFile>& files);

// The URL of a file.
std::string RepoUrl(const HubAccess& access, const Source& source, const std::string& path);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_HF_REPO_H_
