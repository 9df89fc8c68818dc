#include "tenant_checks.h"

#include <algorithm>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::sim {
namespace {

// Speeds are learned, and queues form.
constexpr base::Duration kTenantsWarmUp = std::chrono::seconds(2);
constexpr int64_t kLeastMeasured = 500;
constexpr base::Duration kLeastEncoding = std::chrono::seconds(5);

}  // namespace

void TenantChecks::OnText(RequestId id) { ++texts_[static_cast<size_t>(TenantOf(setup_, id))]; }

void TenantChecks::OnPiece(RequestId id, base::Duration took) {
  if (texts_[kHostile] == 0 || texts_[kBusy] == 0) return;
  encoding_[static_cast<size_t>(TenantOf(setup_, id))] += took;
}

void TenantChecks::OnEncoded(RequestId id, base::Duration waited) {
  const int tenant = TenantOf(setup_, id);
  --texts_[static_cast<size_t>(tenant)];
  if (tenant != kLight || waited <= kMostPieces * kSimEncodingPiece) return;
  violate_("encoding_turn", "the text of request " + std::to_string(id) + " was encoded after " +
                                std::to_string(base::ToSeconds(waited)) + " s");
}

void TenantChecks::OnAdd(const SimRequest& made, const Status& answer) {
  if (setup_.hostile == Hostile::kNone) return;
  const int tenant = TenantOf(setup_, made.request.id);
  if (answer.ok()) {
    requests_[made.request.id] = {.tenant = tenant};
  } else if (tenant == kLight) {
    violate_("tenant_rejected",
             "request " + std::to_string(made.request.id) + " was rejected: " + answer.message());
  }
}

void TenantChecks::OnEvent(const engine::CoreEvent& event) {
  const auto it = requests_.find(event.id);
  if (it == requests_.end()) return;
  if (event.kind == engine::CoreEvent::Kind::kPreempted) {
    it->second.waits = true;
  } else if (event.kind == engine::CoreEvent::Kind::kFinished ||
             event.kind == engine::CoreEvent::Kind::kFailed) {
    requests_.erase(it);
  }
}

void TenantChecks::AfterStep(const engine::CoreStats& stats, const core::StepContent& content,
                             base::TimePoint end) {
  if (setup_.hostile == Hostile::kNone || content.items.empty()) return;
  std::array<bool, kNumSimTenants> worked{};
  std::array<double, kNumSimTenants> time{};
  for (const core::StepContent::Item& item : content.items) {
    const auto tenant = static_cast<size_t>(TenantOf(setup_, item.sequence));
    worked[tenant] = true;
    time[tenant] += base::ToSeconds(time_of_(item));
    const auto it = requests_.find(item.sequence);
    if (it == requests_.end()) continue;  // It ended in this step.
    it->second.waits = false;
    it->second.positions = item.start + item.tokens;
  }
  std::array<int, kNumSimTenants> waiting{};
  std::array<int, kNumSimTenants> slots{};
  std::array<int, kNumSimTenants> blocks{};
  for (const auto& [id, request] : requests_) {
    const auto tenant = static_cast<size_t>(request.tenant);
    if (request.waits) {
      ++waiting[tenant];
    } else {
      ++slots[tenant];
      blocks[tenant] += kvcache::BlocksFor(request.positions);
    }
  }
  for (const int tenant : {kLight, kBusy}) {
    const auto t = static_cast<size_t>(tenant);
    idle_[t] = waiting[t] > 0 && slots[t] == 0 && !worked[t] ? idle_[t] + 1 : 0;
    if (idle_[t] > kMostSteps) {
      violate_("tenant_turn", "tenant " + std::to_string(tenant) + " waits and had no work in " +
                                  std::to_string(idle_[t]) + " steps");
    }
  }
  if (end - base::TimePoint{0} < kTenantsWarmUp) return;
  if (waiting[kHostile] == 0 || waiting[kBusy] == 0) return;
  ++measured_;
  for (size_t t = 0; t < usage_.size(); ++t) {
    usage_[t].slots += static_cast<double>(slots[t]) / stats.limit;
    usage_[t].blocks += static_cast<double>(blocks[t]) / stats.total_blocks;
    usage_[t].time += time[t];
  }
}

void TenantChecks::AtEnd() {
  if (setup_.hostile == Hostile::kNone) return;
  if (setup_.hostile == Hostile::kEncoding) {
    const double hostile = base::ToSeconds(encoding_[kHostile]);
    const double busy = base::ToSeconds(encoding_[kBusy]);
    if (busy >= kLeastShare * hostile && busy + hostile >= base::ToSeconds(kLeastEncoding)) return;
    violate_("encoding_share", "the busy tenant's texts were encoded for " + std::to_string(busy) +
                                   " s, the hostile one's for " + std::to_string(hostile) + " s");
    return;
  }
  if (measured_ < kLeastMeasured) {
    violate_("tenant_share", "only " + std::to_string(measured_) + " steps had both backlogs");
    return;
  }
  double all_time = 0;
  for (const Usage& usage : usage_) all_time += usage.time;
  const auto part = [&](int tenant) {
    const Usage& usage = usage_[static_cast<size_t>(tenant)];
    const auto steps = static_cast<double>(measured_);
    const double time = usage.time / all_time;
    if (setup_.hostile == Hostile::kPrompts) return time;
    return std::max({usage.slots / steps, usage.blocks / steps, time});
  };
  if (part(kBusy) >= kLeastShare * part(kHostile)) return;
  violate_("tenant_share", "the busy tenant had " + std::to_string(part(kBusy)) +
                               ", the hostile one " + std::to_string(part(kHostile)));
}

}  // namespace ropeway::sim
