// A simulated backend of the gateway: a few slots, a line, and troubles.
#ifndef ROPEWAY_SIM_GATEWAY_BACKEND_DOUBLE_H_
#define ROPEWAY_SIM_GATEWAY_BACKEND_DOUBLE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "gateway_setup.h"
#include "ropeway/backend.h"
#include "ropeway/status.h"

namespace ropeway::sim {

// An attempt as its backend sees it.
struct SimAttempt {
  RequestId id = 0;
  uint32_t attempt = 0;
  int32_t prompt = 0;  // Tokens to compute before the first one of the answer.
  int32_t done = 0;    // Tokens of the answer, with those that were there before.
  int32_t length = 0;  // Of the whole answer.
  bool bad = false;
  bool urgent = false;  // Of class high, or its tenant's only one here.
  // Drawn: the answer breaks off once `done` is this; negative: it does not.
  int32_t breaks_at = -1;
};

// What a backend tells, at the time of the call.
class SimBackendEvents {
 public:
  virtual ~SimBackendEvents() = default;
  virtual void OnTokens(int backend, const SimAttempt& attempt, int32_t tokens) = 0;
  virtual void OnDone(int backend, const SimAttempt& attempt) = 0;
  virtual void OnFailed(int backend, const SimAttempt& attempt, Outcome failure) = 0;
};

// It has no clock of its own: the world calls Step when next_step() has come. The requests that it
// computes take their time each for itself. As a Backend that can resume must, it refuses
// what was sent to another model than it is: it may have been exchanged since its last probe.
class SimBackend {
 public:
  SimBackend(int index, const SimBackendSetup& setup, uint64_t seed, SimBackendEvents* events)
      : index_(index), setup_(setup), random_(seed), events_(events), model_(setup.model) {}

  // Its first answer, and a refusal too, comes with a later Step.
  void Send(SimAttempt attempt, base::TimePoint now);
  // The attempt is gone; without effect where there is none.
  void Cancel(RequestId id, uint32_t attempt, base::TimePoint now);
  // Requests that it has.
  int size() const { return static_cast<int>(slots_.size() + line_.size() + refused_.size()); }

  base::TimePoint next_step() const;
  void Step(base::TimePoint now);

  // From now on it is in this trouble; kNone: in none.
  void SetTrouble(Trouble trouble, base::TimePoint now);
  Trouble trouble() const { return trouble_; }
  base::TimePoint trouble_since() const { return trouble_since_; }
  int model() const { return model_; }
  // Those that wait.
  const std::deque<SimAttempt>& line() const { return line_; }

  // The model that the gateway was told last; -1: none.
  void set_told(int model) { told_ = model; }

  // What it says to a probe; nothing: it does not answer.
  std::optional<StatusOr<BackendFacts>> Probe();

 private:
  struct Slot {
    SimAttempt attempt;
    base::TimePoint next{};  // When its next tokens are there.
  };
  struct Refused {
    SimAttempt attempt;
    Outcome failure;
    base::TimePoint at{};
  };

  Outcome Failure(FailureKind kind, const char* why);
  void Refuse(const SimAttempt& attempt, Outcome failure, base::TimePoint now);
  void Begin(const SimAttempt& attempt, base::TimePoint now);
  // Takes the slot of one that is not urgent, which waits then; without one, it waits itself.
  void MakeRoomFor(const SimAttempt& attempt, base::TimePoint now);
  void FillSlots(base::TimePoint now);
  void StepSlot(size_t index, base::TimePoint now);
  base::Duration TimeFor(int64_t tokens, int64_t token_us) const;

  const int index_;
  const SimBackendSetup setup_;
  base::SeededRandom random_;
  SimBackendEvents* const events_;
  int model_;
  int told_ = -1;
  Trouble trouble_ = Trouble::kNone;
  base::TimePoint trouble_since_{};
  bool answers_probes_ = true;  // While it hangs.
  std::vector<Slot> slots_;     // Those that are taken.
  std::deque<SimAttempt> line_;
  std::vector<Refused> refused_;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_GATEWAY_BACKEND_DOUBLE_H_
