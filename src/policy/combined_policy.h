// Several policies as one.
#ifndef ROPEWAY_POLICY_COMBINED_POLICY_H_
#define ROPEWAY_POLICY_COMBINED_POLICY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "policy/scheduling_policy.h"

namespace ropeway {

// The first part decides, the next ones break its ties, then the arrival does: key i is part i's
// first key. Who may preempt whom and who gives way is the first part's to say; all of them hear
// what happens.
class CombinedPolicy final : public SchedulingPolicy {
 public:
  static constexpr size_t kMaxParts = std::tuple_size_v<decltype(Rank::keys)>;

  // REQUIRES: 1 to kMaxParts parts.
  explicit CombinedPolicy(std::vector<std::unique_ptr<SchedulingPolicy>> parts);

  const char* name() const override { return name_.c_str(); }  // The parts', joined by '+'.
  void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                 TimePoint now) override;
  Rank RankOf(const Sequence& sequence) const override;
  bool MayPreempt(const Sequence& urgent, const Sequence& victim) const override;
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence& sequence, const ScheduledWork& work) override;
  void OnFinished(const Sequence& sequence, bool completed) override;

 private:
  const std::vector<std::unique_ptr<SchedulingPolicy>> parts_;
  std::string name_;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_COMBINED_POLICY_H_
