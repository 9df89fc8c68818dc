// Turns the answer to one request, as it arrives, into a RequestRecord.
#ifndef ROPEWAY_LOADGEN_REPLY_READER_H_
#define ROPEWAY_LOADGEN_REPLY_READER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "loadgen/request_record.h"
#include "net/sse_parser.h"

namespace ropeway::loadgen {

// Reads completions and chat completions, whole or as a stream of server-sent events, as the
// reply's Content-Type says. Whatever cannot be read fails the record with a reason. Times are
// seconds after the request was due. Thread rule: one thread at a time.
class ReplyReader {
 public:
  // A longer answer fails.
  static constexpr size_t kMaxBodyBytes = size_t{256} << 20;

  // Fills `record`, which must outlive it; its output text only with `keep_text`.
  ReplyReader(RequestRecord* record, bool keep_text) : record_(record), keep_text_(keep_text) {}

  // The reply's status and Content-Type.
  void OnHead(int status, std::string_view content_type);
  // The body's next bytes. Returns false once the record has failed and no more is needed.
  bool OnBody(std::string_view bytes, double now);
  // The reply is complete.
  void OnEnd(double now);
  // The reply broke off for this reason. A stream that had said [DONE] still counts as complete.
  void OnBroken(const char* kind, std::string why, double now);

 private:
  void OnEvent(std::string_view data, double now);
  void OnText(std::string_view text, double now);
  void Fail(std::string kind, std::string why, double now);
  void EndWhole(double now);
  void EndError(double now);

  RequestRecord* const record_;
  const bool keep_text_;
  bool stream_ = false;
  bool complete_ = false;  // [DONE] came.
  bool finished_ = false;  // A finish_reason came.
  bool counted_ = false;   // The usage came.
  bool ended_ = false;     // The record is final.
  int64_t pieces_ = 0;
  double last_text_ = 0;
  size_t body_bytes_ = 0;
  net::SseParser events_;
  std::string body_;  // Unless it is a stream.
};

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_REPLY_READER_H_
