// The bytes of a whole connection. However they are cut into packets, the same requests are read
// from them, and nothing behind a request's head, trailers least of all, changes what it says.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/utf8.h"
#include "fuzz/fuzz_target.h"
#include "http/request_parser.h"

namespace ropeway::fuzz {
namespace {

using http::RequestHead;
using http::RequestParser;

// Small ones, so that inputs reach them.
const http::HttpLimits& SmallLimits() {
  static const http::HttpLimits limits = [] {
    http::HttpLimits small;
    small.max_header_bytes = 1024;
    small.max_body_bytes = 4096;
    return small;
  }();
  return limits;
}

struct Received {
  RequestHead head;
  std::string body;
  size_t begin = 0;  // Where the head begins and ends.
  size_t end = 0;
};

struct Conversation {
  std::vector<Received> requests;
  bool rejected = false;  // And ended thereby; else the input did.
};

void CheckRejection(const http::HttpReply& reply) {
  const int known[] = {400, 413, 415, 417, 431, 505};
  Require(std::find(std::begin(known), std::end(known), reply.status) != std::end(known),
          "rejected with " + std::to_string(reply.status));
  Require(reply.error && base::IsValidUtf8(reply.error->message), "the rejection is not UTF-8");
}

// Reads `bytes` as a connection does: `next` more of them arrive at a time.
Conversation Converse(std::string_view bytes, const std::function<size_t()>& next) {
  Conversation all;
  std::unique_ptr<RequestParser> parser;
  Received request;
  size_t begin = 0;  // Consumed.
  size_t arrived = 0;
  while (true) {
    if (parser == nullptr) {
      while (begin < arrived && (bytes[begin] == '\r' || bytes[begin] == '\n')) ++begin;
      request = Received();
      request.begin = begin;
      if (begin < arrived) parser = std::make_unique<RequestParser>(SmallLimits());
    }
    if (parser != nullptr) {
      const bool had_head = parser->head_done();
      const size_t used = parser->Parse(bytes.substr(begin, arrived - begin), false);
      Require(used <= arrived - begin, "more is consumed than arrived");
      begin += used;
      if (parser->rejection()) {
        CheckRejection(*parser->rejection());
        all.rejected = true;
        return all;
      }
      if (!had_head && parser->head_done()) {
        request.end = begin;
        if (!parser->done()) continue;
      }
      if (parser->done()) {
        request.head = parser->head();
        request.body = parser->TakeBody();
        Require(request.body.size() <= SmallLimits().max_body_bytes, "a body is too large");
        Require(request.end - request.begin <= SmallLimits().max_header_bytes,
                "a head is too large");
        all.requests.push_back(std::move(request));
        parser.reset();
        continue;
      }
    }
    if (arrived == bytes.size()) return all;
    arrived = std::min(bytes.size(), arrived + next());
  }
}

bool Same(const RequestHead& a, const RequestHead& b) {
  return a.method == b.method && a.target == b.target && a.authorization == b.authorization &&
         a.api_key == b.api_key && a.host == b.host && a.origin == b.origin &&
         a.asked_headers == b.asked_headers && a.preflight == b.preflight &&
         a.forwarded_for == b.forwarded_for && a.forwarded == b.forwarded &&
         a.expects_continue == b.expects_continue && a.framing.http_1_0 == b.framing.http_1_0 &&
         a.framing.keep_alive == b.framing.keep_alive && a.framing.head == b.framing.head;
}

void RequireSame(const Conversation& a, const Conversation& b, const char* cut) {
  const std::string when = std::string(" when it comes ") + cut;
  Require(a.requests.size() == b.requests.size(), "another number of requests" + when);
  for (size_t i = 0; i < a.requests.size(); ++i) {
    Require(Same(a.requests[i].head, b.requests[i].head), "another head" + when);
    Require(a.requests[i].body == b.requests[i].body, "another body" + when);
    Require(a.requests[i].end == b.requests[i].end, "another end of the head" + when);
  }
}

// The head alone says the same.
void CheckHead(std::string_view bytes, const Received& request) {
  RequestParser parser(SmallLimits());
  const std::string_view head = bytes.substr(request.begin, request.end - request.begin);
  Require(parser.Parse(head, false) == head.size(), "a head is not consumed");
  Require(parser.head_done(), "a head alone is none");
  Require(Same(parser.head(), request.head), "what follows a head changes it");
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropeway::fuzz;
  if (size < 1) return 0;
  // The first byte is the seed of the cuts. What is begun at the end is ended.
  ropeway::base::SeededRandom random(data[0]);
  const std::string bytes =
      std::string(reinterpret_cast<const char*>(data) + 1, size - 1) + "\r\n\r\n";
  const Conversation whole = Converse(bytes, [&] { return bytes.size(); });
  for (const Received& request : whole.requests) CheckHead(bytes, request);
  RequireSame(whole, Converse(bytes, [] { return size_t{1}; }), "byte by byte");
  RequireSame(whole, Converse(bytes, [&] { return 1 + random.Next64() % 40; }), "in pieces");
  RequireSame(whole, Converse(bytes, [&] { return bytes.size() / 2 + 1 + random.Next64() % 7; }),
              "in halves");
  return 0;
}
