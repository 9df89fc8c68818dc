// How many requests a backend may have at once, learned from how it does.
#ifndef ROPEWAY_GATEWAY_CONCURRENCY_H_
#define ROPEWAY_GATEWAY_CONCURRENCY_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ropeway::gateway {

// Bounds of the learned number of places. least <= start <= most, all at least 1.
struct PlacesOptions {
  int start = 16;
  int least = 1;
  int most = 256;
};

// Additive increase, multiplicative decrease. Requests' first bytes and failures are counted in
// windows of half as many as there are places (at least kWindow). At the end of a window
//
//   - the places fall to kDecrease of their number if more than kFailures of the window failed, or
//     the time to the first byte has grown: its median, by token of the prompt, is above kGrown
//     times the least that was seen (which is forgotten by and by), and by more than kLeastGrowth.
//     Time to the first byte, since that is where requests wait that a backend took and does not
//     compute; what a token takes grows with the batch, and says little. Where kTries windows in a
//     row fell for that and the time is not much less, the requests that wait there are others':
//     the places are again what they were, and the time is what is usual there. Else other clients
//     of the backend would take all of it. Whether it is less is said by requests that were sent
//     when the places had fallen: earlier ones wait behind as many as there were then.
//   - else they grow by kIncrease, if all were in use in the window.
//
// A backend that says it is busy lowers them at once, to kDecrease of what it has in flight, at
// most once in kPause.
//
// Thread rule: the dispatcher's.
class LearnedPlaces {
 public:
  static constexpr int kWindow = 8;
  static constexpr int kIncrease = 2;
  static constexpr double kDecrease = 0.7;
  static constexpr double kFailures = 0.25;
  static constexpr double kGrown = 3.0;
  static constexpr double kLeastGrowth = 0.1;  // Seconds.
  static constexpr double kForget = 1.05;      // The least grows by this with each window.
  static constexpr int kTries = 3;
  // Of the time when the places first fell. Of a queue of the places' own a third is left then.
  static constexpr double kHelped = 0.67;
  static constexpr int32_t kLeastPrompt = 64;  // Shorter prompts take as long as these.
  static constexpr base::Duration kPause = std::chrono::seconds(1);

  // `by_latency`: the time to the first byte counts.
  LearnedPlaces(const PlacesOptions& options, bool by_latency)
      : least_(options.least),
        most_(options.most),
        by_latency_(by_latency),
        limit_(options.start) {}

  int limit() const { return limit_; }
  // The most from now on; `start_there`: and so many now.
  void set_most(int most, bool start_there);
  void set_by_latency(bool by_latency) { by_latency_ = by_latency; }

  // So many are in flight, now that one more was sent.
  void OnSent(int in_flight) { full_ = full_ || in_flight >= limit_; }
  void OnFirstByte(base::Duration took, int32_t prompt_tokens, base::TimePoint now);
  void OnFailure(base::TimePoint now);
  void OnBusy(int in_flight, base::TimePoint now);

 private:
  static constexpr size_t kMaxSamples = 128;

  int Bounded(int limit) const { return std::clamp(limit, std::min(least_, most_), most_); }
  void EndSample(base::TimePoint now);
  bool HasGrown();  // Notes the window's median.
  // The time has grown in this window too. Whether it is for others' requests. As long as it stays
  // so, the places do not grow beyond what they were: the time would not tell how many are right.
  bool OthersWait();
  static int Fewer(int limit) { return static_cast<int>(kDecrease * limit); }
  void BeginWindow(int limit, base::TimePoint now);

  const int least_;
  int most_;
  bool by_latency_;
  int limit_;
  bool full_ = false;  // In this window all places were in use.
  int count_ = 0;      // First bytes and failures of this window.
  int failures_ = 0;
  int earlier_ = 0;                            // First bytes in this window that do not count.
  std::array<double, kMaxSamples> samples_{};  // Seconds per token, of this window.
  size_t num_samples_ = 0;
  double prompt_tokens_ = 0.0;  // Sum over the samples.
  double median_ = 0.0;         // Of the newest window.
  double least_seconds_ = 0.0;  // The least median; 0: there is none yet.
  int tries_ = 0;               // Windows in a row for whose time the places fell, of kTries.
  double fell_at_ = 0.0;        // The median of the first of them,
  int fell_from_ = 0;           // and the places before it.
  double others_at_ = 0.0;      // The median when others were found to wait; 0: none do.
  base::TimePoint fell_{};      // When the places last fell.
  base::TimePoint next_busy_{};
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_CONCURRENCY_H_
