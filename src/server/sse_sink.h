// The sink of a streamed answer: a bounded buffer between the backend and a socket.
#ifndef ROPEWAY_SERVER_SSE_SINK_H_
#define ROPEWAY_SERVER_SSE_SINK_H_

#include <cstddef>
#include <vector>

#include "server/server_sink.h"

namespace ropeway {

class SseSink final : public ServerSink {
 public:
  // Holds at most `max_events` deltas of `max_bytes` together (what they take in memory); the delta
  // beyond is refused, which cancels the request. Deltas with tokens of the prompt are taken
  // besides.
  SseSink(size_t max_bytes, size_t max_events, WakeFn wake);

 protected:
  bool Keep(Delta delta, std::vector<Delta>* pending) override;
  void Taken() override { bytes_ = 0; }
  bool wakes_on_delta() const override { return true; }

 private:
  const size_t max_bytes_;
  const size_t max_events_;
  size_t bytes_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SSE_SINK_H_
