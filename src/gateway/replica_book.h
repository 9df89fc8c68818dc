// What a gateway tells people of one of its replicas.
#ifndef ROPEWAY_GATEWAY_REPLICA_BOOK_H_
#define ROPEWAY_GATEWAY_REPLICA_BOOK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gateway/dispatcher.h"
#include "gateway/replicas.h"
#include "ropeway/backend.h"
#include "ropeway/stats.h"

namespace ropeway::gateway {

// A backend with its name, and what became of the attempts there; what the dispatcher makes of that
// stands in Replica. Thread rule: the owner's, except for what is constant.
class ReplicaBook {
 public:
  ReplicaBook(std::string name, std::shared_ptr<Backend> backend)
      : name_(std::move(name)), backend_(std::move(backend)) {}

  // Constant.
  const std::string& name() const { return name_; }
  Backend* backend() const { return backend_.get(); }

  // The dispatcher has decided this of the replica.
  void OnDecision(const Decision& decision);
  // An attempt there has failed.
  void OnFailure(FailureKind kind) { ++failures_[static_cast<size_t>(kind)]; }

  // It has answered a probe, or failed to, and is as in `view` since. Returns what is new about it,
  // without its name; "": nothing.
  std::string OnProbe(const ReplicaView& view);
  bool probed() const { return probed_; }
  // It gets requests, or will in a moment.
  bool in_service() const { return why_not_.empty(); }
  // The first time that it reports what it should not.
  bool MayWarn() { return !std::exchange(warned_, true); }

  // Without its model.
  BackendStatus Status(const ReplicaView& view) const;

 private:
  std::string name_;
  std::shared_ptr<Backend> backend_;
  std::array<uint64_t, kNumFailureKinds> failures_{};  // By FailureKind.
  uint64_t timeouts_ = 0;
  uint64_t retries_ = 0;
  uint64_t resumptions_ = 0;
  bool probed_ = false;
  bool warned_ = false;
  std::string why_not_;  // "": it is in service.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_REPLICA_BOOK_H_
