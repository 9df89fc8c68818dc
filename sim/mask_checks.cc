#include "mask_checks.h"

#include <fmt/format.h>

#include "engine/mask_filler.h"

namespace ropeway::sim {

void MaskChecks::OnComputed(const core::Batch& batch) {
  computed_ = true;
  for (const core::BatchItem& item : batch.items) {
    if (item.mask == nullptr) continue;
    Turn& turn = turns_[item.sequence];
    if (item.mask->ready) continue;
    if (turn.asked == 0) turn.asked = batch.step;
    put_off_.push_back(item.sequence);
  }
}

void MaskChecks::OnEvent(const engine::CoreEvent& event) {
  if (event.kind == engine::CoreEvent::Kind::kPreempted ||
      event.kind == engine::CoreEvent::Kind::kFinished ||
      event.kind == engine::CoreEvent::Kind::kFailed) {
    turns_.erase(event.id);
  }
}

void MaskChecks::OnKill() {
  turns_.clear();
  put_off_.clear();
  time_ = {};
}

void MaskChecks::CheckTimes(const engine::CoreStats& stats, std::span<const MaskWork> work) {
  base::Duration all{};
  for (const MaskWork& each : work) {
    if (each.kind != MaskWork::Kind::kAccept && all >= engine::MaskFiller::kMostTime) {
      violate_("mask_time", fmt::format("step {} went on with masks when they had taken {} s",
                                        stats.steps, base::ToSeconds(all)));
    }
    all += each.took;
  }
  if (stats.mask_time - time_ != all) {
    violate_("mask_time",
             fmt::format("the masks of step {} took {} s, and it counts {}", stats.steps,
                         base::ToSeconds(all), base::ToSeconds(stats.mask_time - time_)));
  }
  time_ = stats.mask_time;
}

void MaskChecks::CheckOrder(uint64_t step, const std::map<RequestId, base::Duration>& turns) {
  for (const RequestId id : put_off_) {
    const auto cheap = turns_.find(id);
    if (cheap == turns_.end() || turns.contains(id)) continue;
    if (!cheap->second.known || !cheap->second.is_cheap) continue;
    for (const auto& [other, took] : turns) {
      const auto dear = turns_.find(other);
      if (dear == turns_.end() || !dear->second.last_dear) continue;
      const uint64_t asked = dear->second.asked == 0 ? step : dear->second.asked;
      if (step - asked + 1 >= static_cast<uint64_t>(max_num_seqs_)) continue;
      violate_("mask_order", fmt::format("in step {} request {}, whose masks are cheap, was put "
                                         "off behind request {}",
                                         step, id, other));
    }
  }
}

void MaskChecks::AfterStep(const engine::CoreStats& stats, std::span<const MaskWork> work) {
  CheckTimes(stats, work);
  std::map<RequestId, base::Duration> turns;
  std::map<RequestId, bool> masked;
  for (const MaskWork& each : work) {
    if (each.kind == MaskWork::Kind::kAccept) continue;
    turns[each.request] += each.took;
    masked[each.request] = each.kind == MaskWork::Kind::kMask;
  }
  // In a step that could not be computed requests may have asked, unseen.
  if (!computed_) {
    for (auto& [id, turn] : turns_) turn.last_dear = false;
  }
  CheckOrder(stats.steps, turns);
  for (const RequestId id : put_off_) {
    const auto it = turns_.find(id);
    if (it == turns_.end() || turns.contains(id)) continue;
    if (++it->second.waited <= 2 * int64_t{max_num_seqs_}) continue;
    violate_("mask_turn", fmt::format("request {} sat {} steps out, of {} that may run", id,
                                      it->second.waited, max_num_seqs_));
  }
  for (const auto& [id, took] : turns) {
    cut_turns_ += masked[id] ? 0 : 1;
    const auto it = turns_.find(id);
    if (it == turns_.end()) continue;
    Turn& turn = it->second;
    turn.last_dear = took >= engine::MaskFiller::kMostTime;
    turn.is_cheap =
        turn.is_cheap && masked[id] && took * max_num_seqs_ <= engine::MaskFiller::kMostTime;
    turn.known = true;
    turn.waited = 0;
    turn.asked = 0;
  }
  computed_ = false;
  put_off_.clear();
}

}  // namespace ropeway::sim
