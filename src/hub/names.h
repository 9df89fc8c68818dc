// Names of models and files, and where a model is to come from.
#ifndef ROPEWAY_HUB_NAMES_H_
#define ROPEWAY_HUB_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::hub {

// 1 to 200 letters, digits, dots, dashes and underscores, of which the first is a letter or a
// digit: such a name leads out of no folder and needs no quotes in a shell.
bool IsModelName(std::string_view name);

// Such names with slashes between them: a file in a repository.
bool IsRepoPath(std::string_view path);

// A SHA-256 sum of 64 hexadecimal digits, in lower case as base::HexText writes it; nullopt if
// `text` is none.
std::optional<std::string> ParseSha256(std::string_view text);

// Where a model is.
struct Source {
  enum class Kind {
    kRegistry,  // `name` of a registry.
    kRepo,      // A repository `name` ("owner/repo") of the Hugging Face hub.
    kUrl,       // `name` is the URL of a file.
    kPath,      // `name` is a file or folder on this machine.
  };
  Kind kind = Kind::kRegistry;
  std::string name;
  std::string revision = "main";  // kRepo: branch, tag or commit.
  std::string file;               // kRepo: "": the repository's one model.
  std::string sha256;             // kUrl: from "#sha256=..."; "": not known.
};

// Reads "NAME", "hf:OWNER/REPO[@REVISION][:FILE]", "http://...", "https://..." or a path (with a
// slash, or ending in .gguf). kInvalidArgument with what was expected.
StatusOr<Source> ParseSource(const std::string& text);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_NAMES_H_
