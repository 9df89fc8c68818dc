// The public API of the Ropeway library: submit requests, then wait, poll or stream.
//
//   auto engine = ropeway::Engine::Create({.model = {.path = "model.gguf"}});
//   if (!engine.ok()) { ... engine.status().message() ... }
//   ropeway::Request request;
//   request.prompt = "Once upon a time";
//   auto handle = (*engine)->Submit(std::move(request));
//   if (handle.ok()) std::cout << handle->Wait().value().text;
#ifndef ROPEWAY_ENGINE_H_
#define ROPEWAY_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/request_handle.h"
#include "ropeway/session.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"

namespace ropeway {

// A running engine: a loaded model with its threads. Thread-safe.
class Engine {
 public:
  // Loads the model and starts the threads. On failure, one sentence names the file's or option's
  // field at fault.
  static StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  // Cancels the requests under way, then joins all threads.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues `request` and returns in far under 1 ms, before its prompt is encoded. Fails only for a
  // full queue (kResourceExhausted), a stopping engine (kUnavailable) or a malformed request
  // (kInvalidArgument), or a session's turn that cannot begin; all other errors are reported in the
  // Result.
  //
  // With Request::session_id the request is the next turn of that session of its tenant; a session
  // that does not exist begins with it. The prompt holds only the new text, token ids or chat
  // messages, and goes on from the session's token ids. Generated tokens stay as they were sampled;
  // only if the chat template changes its history, the whole chat is encoded anew. A turn that ends
  // as kStop or kLength is kept, and stored before its end is reported (on the device
  // too, with SessionOptions::state_path); one that is cancelled or fails leaves the session as it
  // was. Rejected: a turn while another one of the session is under way (kInvalidArgument), one of
  // a session whose record is damaged (kDataLoss), one beyond max_sessions or store_bytes
  // (kResourceExhausted), and all of them while sessions cannot be stored (kUnavailable).
  StatusOr<RequestHandle> Submit(Request request, StreamCallback on_delta = nullptr);

  // Submits in order: element i of the reply belongs to element i of `requests`, and ids ascend.
  // Earlier requests that wait count as older. But a request waits only once its prompt is encoded,
  // so one with a long prompt may start after a later one.
  std::vector<StatusOr<RequestHandle>> SubmitMany(std::vector<Request> requests);

  // The results of requests that ended since the last call, in order of their ends; each result
  // exactly once over all callers. Requests submitted with a stream callback are included. At most
  // `max_results`; 0 is all. Needs EngineOptions::max_finished_bytes, without which nothing is kept
  // and there are none. Beyond that bound the oldest results are dropped, which dropped_results
  // counts; a handle gives its result all the same.
  std::vector<Result> PollFinished(size_t max_results = 0);

  // Results that PollFinished will never give, for want of room.
  uint64_t dropped_results() const;

  // Asks that the request end as kCancelled; kNotFound if no such request is under way.
  Status Cancel(RequestId id);

  // A tenant's sessions that have a completed turn, the least recently used first.
  std::vector<SessionInfo> Sessions(const std::string& tenant = "") const;

  // Deletes a session, and returns when that is stored: it may wait for the device. A turn under
  // way goes on, but is not kept; one whose prompt is not encoded yet may fail with kNotFound.
  // kNotFound: the tenant has no such session.
  Status CloseSession(const std::string& id, const std::string& tenant = "");

  // Declares that all requests have been submitted: a static or dynamic batch that fills begins
  // with the requests that wait, and later batches do not wait to fill either. Returns at once.
  void Flush();

  // Rejects new requests from now on, and waits until all accepted ones ended or `deadline` is
  // over; requests still under way then are cancelled. Returns kDeadlineExceeded if anything had to
  // be cancelled.
  Status Drain(std::chrono::nanoseconds deadline);

  // Statistics as of the newest step. Cheap: copies numbers under a lock.
  EngineStats Stats() const;

  // The resolved limit on prompt plus output tokens of one request.
  int max_model_len() const;
  const std::string& model_name() const;
  // What ModelOptions::sampling and the model say about requests that do not. A Request says all:
  // sampling_defaults().Params() is one that does not.
  const SamplingDefaults& sampling_defaults() const;
  // Whether the model is an encoder, which makes embeddings (Request::embedding) and no text.
  bool embeds_only() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// An engine of this process as a backend of a gateway. Blocks while it loads the model. Requests
// may call its model anything. On failure, one sentence names the file's or option's field at
// fault.
StatusOr<std::shared_ptr<Backend>> OpenLocalBackend(const EngineOptions& options);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_H_
