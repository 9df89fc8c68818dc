#include "hub/test_file_server.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/sha256.h"

namespace ropeway::hub {
namespace {

std::string FieldOf(const net::FakeRequest& request, const std::string& name) {
  const std::string mark = "\r\n" + name + ": ";
  size_t at = request.headers.find(mark);
  if (at == std::string::npos) return "";
  at += mark.size();
  return request.headers.substr(at, request.headers.find("\r\n", at) - at);
}

net::FakeReply Reply(int status, const std::string& fields, const std::string& body) {
  net::FakeReply reply;
  reply.writes = {fmt::format("HTTP/1.1 {} X\r\n{}Connection: close\r\n\r\n", status, fields),
                  body};
  return reply;
}

net::FakeReply TextReply(int status, const std::string& text) {
  return Reply(status, fmt::format("Content-Length: {}\r\n", text.size()), text);
}

}  // namespace

TestFileServer::TestFileServer()
    : server_([this](const net::FakeRequest& request) { return Answer(request); }) {}

void TestFileServer::Put(const std::string& path, ServedFile file) {
  const std::lock_guard lock(mutex_);
  files_[path] = std::move(file);
}

std::vector<std::string> TestFileServer::fields(const std::string& name) const {
  std::vector<std::string> values;
  for (const net::FakeRequest& request : requests()) values.push_back(FieldOf(request, name));
  return values;
}

net::FakeReply TestFileServer::Answer(const net::FakeRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.path);
  if (found == files_.end()) return TextReply(404, "no such file");
  ServedFile& file = found->second;
  if (!file.token.empty() && FieldOf(request, "Authorization") != "Bearer " + file.token) {
    return TextReply(401, "who are you?");
  }
  if (file.status != 200) return TextReply(file.status, "something is wrong");
  if (!file.location.empty()) {
    return Reply(302, "Location: " + file.location + "\r\nContent-Length: 0\r\n", "");
  }

  const std::string range = FieldOf(request, "Range");
  const std::string if_range = FieldOf(request, "If-Range");
  const bool part = file.ranges && range.starts_with("bytes=") &&
                    (if_range.empty() || !file.if_range || if_range == file.tag);
  const size_t begin = part ? std::strtoul(range.c_str() + 6, nullptr, 10) : 0;
  if (begin > 0 && begin >= file.bytes.size()) return TextReply(416, "");
  std::string body = file.bytes.substr(begin);
  std::string fields;
  if (!file.tag.empty() && (!part || file.part_tag)) fields += "ETag: " + file.tag + "\r\n";
  if (!file.link.empty()) fields += "Link: " + file.link + "\r\n";
  if (file.length) {
    fields += fmt::format("Content-Length: {}\r\n", file.claims > 0 ? file.claims : body.size());
  }
  if (part) {
    fields += fmt::format(
        "Content-Range: {}\r\n",
        file.range_text.empty()
            ? fmt::format("bytes {}-{}/{}", begin, file.bytes.size() - 1, file.bytes.size())
            : file.range_text);
  }
  if (body.size() > file.cut && file.cuts > 0) {
    --file.cuts;
    body.resize(file.cut);
  }
  net::FakeReply reply = Reply(part ? 206 : 200, fields, body);
  if (file.hang) {
    reply.writes.resize(1);
    reply.hang = true;
  }
  return reply;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ropeway-hub-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchFolder::Write(const std::string& name, const std::string& bytes) const {
  std::filesystem::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << bytes;
}

std::string ScratchFolder::Read(const std::string& name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool ScratchFolder::Has(const std::string& name) const {
  return std::filesystem::exists(path_ / name);
}

std::string SomeBytes(size_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 12345;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

std::string SumOf(const std::string& bytes) {
  return base::HexText(base::Sha256(bytes.data(), bytes.size()));
}

}  // namespace ropeway::hub
