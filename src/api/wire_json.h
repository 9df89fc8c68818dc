// What the wire formats share: JSON that a server wrote, read without trust, and parts of what they
// write. Its names stay in a namespace of their own, like the names of all *_wire.cc.
#ifndef ROPEWAY_API_WIRE_JSON_H_
#define ROPEWAY_API_WIRE_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire_fields.h"
#include "base/json.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// The kind of failure that an HTTP status is, and the failure with what the server said.
FailureKind FailureKindOf(int http_status);
Outcome HttpFailure(int http_status, std::string_view body);

namespace wire {

// --- Reading.

// A document that the server sent; the message of a failure calls it `what`.
StatusOr<nlohmann::json> ReadDocument(std::string_view text, std::string_view what);

using base::Member;
using base::Text;

// An integer from 0 to 2^31 - 1, or one written with a fraction of 0; else nothing.
std::optional<int32_t> Count(const nlohmann::json& json);

// What a document says about its error, in any of the shapes in use; "" if nothing. What is no text
// is shown as JSON.
std::string ErrorText(const nlohmann::json& json);

// The same status with what the error says of the request: the field at fault as `param`, and a
// code that clients know. That a prompt is too long, some servers say in words of their own.
Status WithParam(const Status& status, const nlohmann::json& json);

// The failure of a request whose answer is, or holds, the error `json`: `before`, which follows
// "it ", and what it says. It is the request's own fault where the error says so.
Outcome ErrorFailure(const std::string& before, const nlohmann::json& json);

// An answer that breaks its format: "it " and `what`, such as "sent no JSON".
Outcome Broken(const std::string& what);
// The outcome of an answer that does not end where it has to.
Outcome TooLong(std::optional<int32_t> max_tokens);

// The sum of the samples of a metric in the Prometheus text format, over all its labels; nothing if
// it has none.
std::optional<double> MetricSum(std::string_view text, std::string_view name);
// The sum of a metric that counts something; nothing if it has no samples, or is no count up to
// 10^9.
std::optional<int> MetricCount(std::string_view text, std::string_view name);

// The entries of a list of models: OpenAI's `data`, Ollama's `models`, or the list alone; null
// where `document` is none.
const nlohmann::json& ModelEntries(const nlohmann::json& document, FieldReader* fields);
// The name of an entry: its `id`, `name` or `model`, or the entry itself.
std::string_view ModelName(const nlohmann::json& entry, FieldReader* fields);
// All names of such a list, each once.
StatusOr<std::vector<std::string>> ModelIds(const nlohmann::json& document);

// What was wrong with the fields of a server's answer to a question; OK: nothing.
Status FaultStatus(const FieldReader& fields);

// What an answer's reason to end means, in any server's words: whatever it is called but the words
// for its longest, such as "eos" or "content_filter", the model does not go on. A failure: it is
// one of those for an answer that failed.
std::optional<Outcome> ReadReason(std::string_view reason, FinishReason* read);

// Keeps count of a stream against what was asked for, so that one without an end is cut.
class LengthGuard {
 public:
  explicit LengthGuard(std::optional<int32_t> max_tokens);
  // Counts an event with output. Returns false once no honest answer could be so long.
  bool Take(size_t said_bytes, size_t tokens = 0);
  // Counts an event without output. There may be many, which keep the connection alive. Returns a
  // failure if they have no end.
  std::optional<Outcome> TakeIdle();

 private:
  int idle_events_ = 1 << 16;
  uint64_t max_events_;
  uint64_t max_tokens_;
  uint64_t max_bytes_;
};

// --- Writing.

// A seed in 31 bits, for servers that take no more; one that fits stays as it is.
int32_t ShortSeed(uint64_t seed);

// The text of a JSON body; what is not UTF-8 in it becomes U+FFFD.
std::string Dump(const nlohmann::ordered_json& body);

// kUnimplemented if the request asks for what no stream of a server has; the message begins with
// "it", the backend.
Status CheckStreamable(const Request& request);

// kUnimplemented if the request goes on from what another engine has generated: for servers that
// cannot do that. The message begins with "it", the backend.
Status CheckFromTheStart(const Request& request);

}  // namespace wire
}  // namespace ropeway::api

#endif  // ROPEWAY_API_WIRE_JSON_H_
