#include "gateway/dispatch_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace ropeway::gateway {

// --- DispatchTenants.

DispatchTenants::Tenant* DispatchTenants::Enter(const std::string& name, double weight) {
  std::vector<int> at(replicas_);
  const auto [found, is_new] = all_.try_emplace(name);
  Tenant* const tenant = &found->second;
  if (is_new) tenant->at = std::move(at);
  weights_ += weight - (is_new ? 0.0 : tenant->weight);
  newcomers_ += is_new ? 1 : 0;
  tenant->weight = weight;
  ++tenant->requests;
  return tenant;
}

void DispatchTenants::Leave(const std::string& name) {
  const auto found = all_.find(name);
  if (--found->second.requests > 0) return;
  weights_ -= found->second.weight;
  --newcomers_;
  all_.erase(found);
  if (all_.empty()) weights_ = 0.0;  // Drops what rounding has left.
}

void DispatchTenants::CountAttempt(Tenant* tenant, int replica, int by) {
  newcomers_ -= tenant->is_newcomer() ? 1 : 0;
  tenant->running += by;
  newcomers_ += tenant->is_newcomer() ? 1 : 0;
  const int there = tenant->at[static_cast<size_t>(replica)] += by;
  tenant->there = there > 0 ? tenant->there | MaskOf(replica) : tenant->there & ~MaskOf(replica);
}

bool DispatchTenants::HasItsShare(const Tenant& tenant, int limit) const {
  // Not one less for a sum that is rounded up.
  constexpr double kRounding = 1.0 + 1e-9;
  return divides() && tenant.running > 0 &&
         (tenant.running + 1) * weights_ > kRounding * limit * tenant.weight;
}

bool DispatchTenants::CountsAs(const DispatchTenants& other) const {
  const auto same = [](const ByName::value_type& a, const ByName::value_type& b) {
    const auto& [name, its] = a;
    const Tenant& theirs = b.second;
    return name == b.first && its.requests == theirs.requests && its.urgent == theirs.urgent &&
           its.running == theirs.running && its.at == theirs.at && its.there == theirs.there;
  };
  return newcomers_ == other.newcomers_ && urgent_ == other.urgent_ &&
         std::equal(all_.begin(), all_.end(), other.all_.begin(), other.all_.end(), same);
}

// --- DispatchBatches.

void DispatchBatches::Reserve() {
  if (!spare_.empty()) return;
  ByNumber one;
  one.try_emplace(0);
  spare_ = one.extract(one.begin());
}

uint64_t DispatchBatches::Start(const Starting& starting, base::TimePoint now) {
  const uint64_t number = ++counts_.batches;
  counts_.batched += static_cast<uint64_t>(starting.members);
  counts_.batch_sizes += starting.size;
  spare_.key() = number;
  spare_.mapped() = {starting.members, now, starting.joins};
  batches_.insert(std::move(spare_));
  if (starting.joins) {
    joined_ += starting.members;
    return number;
  }
  ++running_;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  former_.OnStarted(starting.members, static_cast<int32_t>(std::min(starting.prompt_tokens, kMost)),
                    now);
  return number;
}

void DispatchBatches::Leave(uint64_t number, base::TimePoint now) {
  const auto batch = batches_.find(number);
  if (batch->second.joins) --joined_;
  if (--batch->second.left > 0) return;
  ++counts_.batches_ended;
  counts_.batch_seconds += base::ToSeconds(now - batch->second.began);
  if (!batch->second.joins) {
    --running_;
    former_.OnBatchEnded(now);
  }
  spare_ = batches_.extract(batch);
}

void DispatchBatches::AddTo(EngineStats* stats) const {
  stats->total_batches = counts_.batches;
  stats->total_requests = counts_.batched;
  if (counts_.batches > 0) {
    stats->avg_batch_size = counts_.batch_sizes / static_cast<double>(counts_.batches);
  }
  if (counts_.batches_ended > 0) {
    stats->avg_batch_duration_ms =
        1000.0 * counts_.batch_seconds / static_cast<double>(counts_.batches_ended);
  }
}

std::map<uint64_t, int32_t> DispatchBatches::Members() const {
  std::map<uint64_t, int32_t> members;
  for (const auto& [number, batch] : batches_) members[number] = batch.left;
  return members;
}

// --- DispatchEntries.

DispatchEntry::DispatchEntry(DispatchRequest asked, uint64_t entries_before)
    : core::Job(std::move(static_cast<core::JobRequest&>(asked)), entries_before),
      blocks(std::move(asked.blocks)) {
  prompt_len = length = asked.prompt_tokens;
}

DispatchEntry* DispatchEntries::Find(RequestId id) const {
  const auto found = entries_.find(id);
  return found != entries_.end() ? found->second.get() : nullptr;
}

DispatchEntry* DispatchEntries::FindAttempt(RequestId id, uint32_t attempt) const {
  DispatchEntry* const entry = Find(id);
  return entry != nullptr && entry->replica >= 0 && entry->attempt == attempt ? entry : nullptr;
}

void DispatchEntries::Reserve(size_t more) {
  const size_t all = entries_.size() + more;
  for (List* list : {&waiting_, &running_}) {
    if (list->capacity() < all) list->reserve(2 * all);
  }
}

DispatchEntry* DispatchEntries::Insert(std::unique_ptr<DispatchEntry> entry) {
  DispatchEntry* const inserted = entry.get();
  const RequestId id = inserted->id();
  entries_.emplace(id, std::move(entry));
  try {
    timers_.emplace(inserted->timer, id);
    inserted->tenant = tenants_.Enter(inserted->request.tenant, inserted->request.tenant_weight);
  } catch (...) {
    timers_.erase({inserted->timer, id});
    entries_.erase(id);
    throw;
  }
  return inserted;
}

void DispatchEntries::Remove(DispatchEntry* entry) {
  timers_.erase({entry->timer, entry->id()});
  tenants_.Leave(entry->request.tenant);
  entries_.erase(entry->id());
}

void DispatchEntries::AddTo(List* list, DispatchEntry* entry) {
  entry->index = list->size();
  list->push_back(entry);
}

void DispatchEntries::RemoveFrom(List* list, DispatchEntry* entry) {
  DispatchEntry* const last = list->back();
  last->index = entry->index;
  (*list)[entry->index] = last;
  list->pop_back();
}

void DispatchEntries::Wait(DispatchEntry* entry) {
  AddTo(&waiting_, entry);
  if (entry->is_urgent()) tenants_.CountUrgent(entry->tenant, 1);
}

void DispatchEntries::StopWaiting(DispatchEntry* entry) {
  RemoveFrom(&waiting_, entry);
  if (entry->is_urgent()) tenants_.CountUrgent(entry->tenant, -1);
}

void DispatchEntries::Send(DispatchEntry* entry, int replica) {
  AddTo(&running_, entry);
  ++entry->attempt;
  entry->replica = replica;
  tenants_.CountAttempt(entry->tenant, replica, 1);
}

bool DispatchEntries::EndAttempt(DispatchEntry* entry) {
  RemoveFrom(&running_, entry);
  const int replica = std::exchange(entry->replica, -1);
  tenants_.CountAttempt(entry->tenant, replica, -1);
  return (entry->tenant->there & MaskOf(replica)) == 0;
}

void DispatchEntries::SetTimer(DispatchEntry* entry, base::TimePoint due) {
  if (due == entry->timer) return;
  // The same node, so that nothing is allocated.
  auto node = timers_.extract({entry->timer, entry->id()});
  entry->timer = due;
  node.value() = {due, entry->id()};
  timers_.insert(std::move(node));
}

Status DispatchEntries::CheckList(const List& list, bool runs) const {
  for (size_t i = 0; i < list.size(); ++i) {
    const DispatchEntry& entry = *list[i];
    const bool first = entry.state == core::SequenceState::kWaiting;
    const char* wrong = entry.place.taken() != first ? "with a wrong place in the queue" : nullptr;
    if (entry.index != i || Find(entry.id()) != &entry) wrong = "out of place";
    if (entry.running() != runs || (entry.replica >= 0) != runs) wrong = "on the wrong list";
    if (!timers_.contains({entry.timer, entry.id()})) wrong = "without its timer";
    if (entry.tokens_left < 0) wrong = "with a negative number of tokens left";
    if (wrong == nullptr) continue;
    return {StatusCode::kInternal,
            fmt::format("the dispatcher has request {} {}", entry.id(), wrong)};
  }
  return {};
}

Status DispatchEntries::CheckIntegrity() const {
  if (Status status = CheckList(waiting_, false); !status.ok()) return status;
  if (Status status = CheckList(running_, true); !status.ok()) return status;
  if (entries_.size() != waiting_.size() + running_.size() || timers_.size() != entries_.size()) {
    return {StatusCode::kInternal, "the dispatcher's count of requests is wrong"};
  }
  const auto held = std::count_if(waiting_.begin(), waiting_.end(),
                                  [](const DispatchEntry* entry) { return entry->place.taken(); });
  if (places_.used() != held) {
    return {StatusCode::kInternal, "the dispatcher's count of places in the queue is wrong"};
  }
  DispatchTenants again = tenants_.Empty();
  for (const auto& [id, entry] : entries_) {
    DispatchTenants::Tenant* const tenant = again.Enter(entry->request.tenant, 1.0);
    if (entry->replica >= 0) again.CountAttempt(tenant, entry->replica, 1);
    if (entry->replica < 0 && entry->is_urgent()) again.CountUrgent(tenant, 1);
  }
  if (tenants_.CountsAs(again)) return {};
  return {StatusCode::kInternal, "the dispatcher's count of its tenants' requests is wrong"};
}

Status DispatchEntries::CheckReplicas(const Replicas& replicas) const {
  for (int i = 0; i < static_cast<int>(replicas.size()); ++i) {
    int requests = 0;
    int64_t tokens = 0;
    for (const DispatchEntry* entry : running_) {
      requests += entry->replica == i ? 1 : 0;
      tokens += entry->replica == i ? entry->tokens_left : 0;
    }
    const auto tenants =
        std::count_if(tenants_.all().begin(), tenants_.all().end(),
                      [i](const auto& named) { return (named.second.there & MaskOf(i)) != 0; });
    const Replica& replica = replicas[i];
    if (replica.in_flight() == requests && replica.outstanding() == tokens &&
        replica.tenants() == tenants) {
      continue;
    }
    return {StatusCode::kInternal,
            fmt::format("the dispatcher counts {} requests, {} tokens and {} tenants at {}, but "
                        "there are {}, {} and {}",
                        replica.in_flight(), replica.outstanding(), replica.tenants(),
                        replica.options().name, requests, tokens, tenants)};
  }
  return {};
}

Status DispatchEntries::CheckBatches(const DispatchBatches& batches) const {
  std::map<uint64_t, int32_t> members;
  for (const auto& [id, entry] : entries_) {
    if (entry->batch != 0) ++members[entry->batch];
  }
  if (members == batches.Members()) return {};
  return {StatusCode::kInternal, "the dispatcher's count of the members of batches is wrong"};
}

}  // namespace ropeway::gateway
