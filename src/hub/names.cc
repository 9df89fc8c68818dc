#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
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
    if (!IsRepoPath(source.file)) return NoSource(text, "has no name of a file behind ':'");
  }
  if (const size_t at = rest.find('@'); at != rest.npos) {
    source.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!IsModelName(source.revision)) return NoSource(text, "has no revision behind '@'");
  }
  const size_t slash = rest.find('/');
  if (slash == rest.npos || !IsModelName(rest.substr(0, slash)) ||
      !IsModelName(rest.substr(slash + 1))) {
    return NoSource(text, "names no repository");
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
      if (!digits) return NoSource(text, "has no SHA-256 sum behind #sha256=");
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
  if (!IsModelName(text)) return NoSource(text, "is no name of a model");
  source.name = text;
  return source;
}

}  // namespace ropeway::hub
