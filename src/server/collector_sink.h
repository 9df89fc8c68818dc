// The sink of an answer that is sent whole: collects until the end. Bounded by the
// request's max_tokens and, where the prompt's tokens are reported, max_model_len.
#ifndef ROPEWAY_SERVER_COLLECTOR_SINK_H_
#define ROPEWAY_SERVER_COLLECTOR_SINK_H_

#include <vector>

#include "server/server_sink.h"

namespace ropeway {

class CollectorSink final : public ServerSink {
 public:
  // Without `keep_tokens` only the text and the prompt's tokens are kept.
  CollectorSink(bool keep_tokens, WakeFn wake);

 protected:
  // Merges all into one delta.
  bool Keep(Delta delta, std::vector<Delta>* pending) override;
  bool wakes_on_delta() const override { return false; }

 private:
  const bool keep_tokens_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_COLLECTOR_SINK_H_
