// Incremental parser of server-sent events.
#ifndef ROPEWAY_NET_SSE_PARSER_H_
#define ROPEWAY_NET_SSE_PARSER_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ropeway::net {

// An event of a stream.
struct SseEvent {
  std::string_view data;
  std::string_view type;  // As its `event` field names it; "": it has none.
};

// Follows the HTML standard, 9.2.6: a byte order mark before the stream is dropped; lines end in
// LF, CR or CRLF; a line with a colon first is a comment; several data lines of one event are
// joined by LF; an event ends at an empty line, and one without a data line is none. Fields other
// than `data` and `event` are skipped.
// Thread rule: one thread at a time.
class SseParser {
 public:
  static constexpr size_t kMaxEventBytes = size_t{8} << 20;

  // A longer event fails the stream.
  explicit SseParser(size_t max_event_bytes = kMaxEventBytes) : max_event_bytes_(max_event_bytes) {}

  // Takes the next bytes, cut anywhere, and calls on_event(const SseEvent&) for each event
  // that they complete. Returns false if an event is too long; nothing may be fed after that.
  template <typename OnEvent>
  bool Feed(std::string_view bytes, OnEvent on_event) {
    while (!bytes.empty()) {
      const size_t end = bytes.find_first_of("\r\n");
      if (after_cr_ && end == 0 && bytes[0] == '\n') {  // The LF of a CRLF.
        after_cr_ = false;
        bytes.remove_prefix(1);
        continue;
      }
      after_cr_ = false;
      if (end == std::string_view::npos) {
        line_.append(bytes);
        return Fits();
      }
      const std::string_view head = bytes.substr(0, end);
      after_cr_ = bytes[end] == '\r';
      bytes.remove_prefix(end + 1);
      bool complete = false;
      if (line_.empty()) {
        complete = EndLine(head);
      } else {
        line_.append(head);
        complete = EndLine(line_);
        line_.clear();
      }
      if (!Fits()) return false;
      if (complete) {
        on_event(SseEvent{data_, type_});
        data_.clear();
        type_.clear();
      }
    }
    return true;
  }

 private:
  bool Fits() const { return line_.size() + data_.size() + type_.size() <= max_event_bytes_; }
  // Takes a whole line; returns true if it ends an event, whose text is data_.
  bool EndLine(std::string_view line);

  const size_t max_event_bytes_;
  std::string line_;  // A line whose end has not arrived.
  std::string data_;
  std::string type_;
  bool at_start_ = true;  // The first line has not ended.
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_SSE_PARSER_H_
