// The seam between the HTTP backend and what its server speaks: one WireFormat per kind of server.
//
// A kind is one implementation in one file, and one line in MakeWireFormat (wire_format.cc). It
// writes a request, reads the stream that answers it, and says what to ask to learn how the server
// is. Connections, timeouts, HTTP's own errors and keys know no kind (http_backend.h).
#ifndef ROPEWAY_API_WIRE_FORMAT_H_
#define ROPEWAY_API_WIRE_FORMAT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

enum class BackendKind {
  kOpenAi,    // Any server of OpenAI's API: vLLM, SGLang, LM Studio, ...
  kLlamaCpp,  // llama.cpp's llama-server.
  kOllama,    // Ollama's own API.
  kRopeway,
};

// "openai", "llamacpp", "ollama", "ropeway".
const char* BackendKindName(BackendKind kind);
// The kind of this name, or nothing.
std::optional<BackendKind> BackendKindOf(std::string_view name);

// A request as it is sent: a POST with a JSON body.
struct WireRequest {
  std::string path;  // Behind the server's root: "/v1/completions".
  std::string body;
};

// Reads the body that answers one request. Thread rule: one thread at a time.
class WireReply {
 public:
  using DeltaFn = std::function<void(Delta)>;

  // A longer line or event of a stream is a failure.
  static constexpr size_t kMaxEventBytes = size_t{1} << 20;

  virtual ~WireReply() = default;

  // Takes the next bytes of the body, cut anywhere, and passes on each event that they complete and
  // that has text or tokens. Returns why the answer is broken; then nothing may be fed any more.
  // What follows the stream's end is ignored. The message may quote the server at length, with
  // whatever bytes it sent.
  virtual std::optional<Outcome> Feed(std::string_view bytes, const DeltaFn& give) = 0;

  // The stream has said that it is over: nothing that comes could change the answer.
  virtual bool complete() const = 0;

  // To be called once, when the body is over or complete() holds: passes on what is left, and says
  // how the request ended: with a Finish, or why its answer is broken.
  virtual Outcome End(const DeltaFn& give) = 0;
};

// One thing to ask a server: a GET of `path`.
struct WireProbe {
  std::string path;
  // What the answer is to the server's health.
  enum class Need {
    kNone,        // Nothing: it may be missing.
    kAnyAnswer,   // It is well if it answers at all, with whatever status and body.
    kGoodAnswer,  // It is well if `read` can read it.
  };
  Need need = Need::kNone;
  // Reads the body of an answer with status 200. Fails, having read nothing, where a field is of an
  // unexpected type.
  std::function<Status(std::string_view body, BackendFacts* facts)> read;
  std::string hint = {};  // Where that fails, what to do about it: the end of a sentence.
};

// Thread rule: every method from any thread.
class WireFormat {
 public:
  virtual ~WireFormat() = default;

  // Writes the request for a stream. kInvalidArgument or kUnimplemented if the kind has no way to
  // ask for this; the message, which begins with "it", the backend, says what.
  virtual StatusOr<WireRequest> Write(const Request& request) const = 0;

  // What reads the stream that answers `request`.
  virtual std::unique_ptr<WireReply> MakeReply(const Request& request) const = 0;

  // Whether an answer may have this media type, in lower case and without parameters; "": none.
  virtual bool IsAnswer(std::string_view media_type) const = 0;

  // What to ask now; in this order the answers are read. It may depend on earlier ones.
  virtual std::vector<WireProbe> Probes() = 0;

  // As Backend's.
  virtual bool CanResume() const { return false; }
  virtual std::vector<std::string> Unknown(const Request& request) const = 0;
};

// The model of a server.
struct ServerModel {
  std::string name = {};  // At the server; "": as requests have it.
  // That is what clients call it: where the server has one model alone, that is it, whatever its
  // name. As far as the kind can know that it has no other.
  bool may_differ = false;
};

std::unique_ptr<WireFormat> MakeWireFormat(BackendKind kind, ServerModel model);

namespace wire {
std::unique_ptr<WireFormat> MakeOpenAi(ServerModel model);
std::unique_ptr<WireFormat> MakeLlamaCpp(ServerModel model);
std::unique_ptr<WireFormat> MakeOllama(ServerModel model);
std::unique_ptr<WireFormat> MakeRopeway(ServerModel model);
}  // namespace wire

}  // namespace ropeway::api

#endif  // ROPEWAY_API_WIRE_FORMAT_H_
