#include "gateway/dispatch_load.h"

#include <utility>

#include "service/intake.h"

namespace ropeway::gateway {

DispatchLoad::DispatchLoad(const Sources& sources, const policy::SchedulingPolicy& policy)
    : from_(sources),
      work_(&costs_, scheduler::LoadOptions::Of(policy, /*preempts=*/false)),
      admission_(from_.options.queue.max_wait, from_.options.queue.max_queued_tokens, this) {}

Status DispatchLoad::Admit(DispatchEntry* entry) {
  const core::JobRequest& request = entry->request;
  base::SharedBudget& places = from_.entries.places();
  if (places.Take(request.tenant, 1, &entry->place)) {
    const uint64_t content = entry->blocks.empty() ? 0 : entry->blocks.back();
    return admission_.Admit(*entry, content, now_);
  }
  return service::QueueFull(places, Predict(),
                            {request.tenant, request.tenant_weight, request.priority},
                            from_.options.queue);
}

void DispatchLoad::Measure() {
  const int running = static_cast<int>(from_.entries.running().size());
  const bool busy = running > 0 && 2 * running >= limit();
  if (busy_ && busy) {
    const base::Duration took = now_ - since_;
    // Where nothing was reported yet, the interval goes on until something is.
    if (took < kPaceInterval || done_.prompt + done_.output <= 0.0) return;
    work_.OnStep(done_, took);
  }
  busy_ = busy;
  since_ = now_;
  done_ = {};
}

bool DispatchLoad::StartsAtOnce(const core::Job& job) const {
  if (!from_.entries.waiting().empty()) return false;
  const DispatchTenants::ByName& tenants = from_.entries.tenants().all();
  const auto tenant = tenants.find(job.request.tenant);
  const ReplicaMask there = tenant != tenants.end() ? tenant->second.there : 0;
  if (from_.places.FreeAt(now_, false).For(there) == 0) return false;
  if (!from_.options.batching.enable_batching) return from_.entries.running().empty();
  return !from_.options.in_batches() || from_.batches.may_run_more();
}

void DispatchLoad::View(scheduler::LoadView* view) const {
  work_.View({.jobs = from_.entries.running(),
              .slots = limit(),
              .step_seconds = base::ToSeconds(kDispatchStep),
              .newcomers = from_.places.ForNewcomers(now_)},
             view);
}

scheduler::LoadView DispatchLoad::Predict() const {
  scheduler::LoadView load;
  admission_.View(&load);
  return load;
}

service::QueueInfo DispatchLoad::Queue(const std::string* tenant, double weight) const {
  service::QueueInfo info;
  for (const auto* list : {&from_.entries.waiting(), &from_.entries.running()}) {
    for (const DispatchEntry* entry : *list) {
      if (tenant != nullptr && entry->request.tenant != *tenant) continue;
      service::QueueInfo::Class& its = info.classes[static_cast<size_t>(entry->request.priority)];
      ++(entry->running() ? its.running : its.waiting);
    }
  }
  service::PredictWaits(Predict(), tenant, weight, from_.options.queue, &info);
  if (!from_.entries.waiting().empty()) {
    info.blocked_by = "batch";
    if (!from_.places.AnyFree(now_)) info.blocked_by = "slots";
    if (from_.replicas.Alive() == 0) info.blocked_by = "backends";
  }
  return info;
}

int DispatchLoad::RetryAfterSeconds(const std::string& tenant) const {
  return scheduler::WholeSeconds(Predict().SecondsToEnd(tenant));
}

}  // namespace ropeway::gateway
