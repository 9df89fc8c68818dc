#include "mask_checks.h"

#include "engine/mask_filler.h"

namespace ropeway::sim {

void MaskChecks::OnComputed(const core::Batch& batch) {
  for (const core::BatchItem& item : batch.items) {
    if (item.mask != nullptr) turns_.try_emplace(item.sequence);
  }
  for (const core::BatchItem& item : batch.items) {
    if (item.mask == nullptr) continue;
    Turn& turn = turns_.at(item.sequence);
    if (item.mask->ready) {
      turn = {};
      continue;
    }
    if (turn.waited == 0) turn.before = static_cast<int64_t>(turns_.size()) - 1;
    ++turn.waited;
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
  time_ = {};
}

void MaskChecks::AfterStep(const engine::CoreStats& stats, std::span<const base::Duration> times) {
  base::Duration all{};
  for (const base::Duration took : times) {
    if (all >= engine::MaskFiller::kMostTime) {
      violate_("mask_time", "step " + std::to_string(stats.steps) +
                                " began a mask when its masks had taken " +
                                std::to_string(base::ToSeconds(all)) + " s");
    }
    all += took;
  }
  if (stats.mask_time - time_ != all) {
    violate_("mask_time", "the masks of step " + std::to_string(stats.steps) + " took " +
                              std::to_string(base::ToSeconds(all)) + " s, and it counts " +
                              std::to_string(base::ToSeconds(stats.mask_time - time_)));
  }
  time_ = stats.mask_time;
  for (const auto& [id, turn] : turns_) {
    if (turn.waited <= turn.before) continue;
    violate_("mask_turn", "request " + std::to_string(id) + " sat " + std::to_string(turn.waited) +
                              " steps out, with " + std::to_string(turn.before) +
                              " others before it");
  }
}

}  // namespace ropeway::sim
