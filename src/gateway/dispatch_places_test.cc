#include "gateway/dispatch_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace ropeway::gateway {
namespace {

class DispatchPlacesTest : public testing::Test {
 protected:
  static std::vector<BackendOptions> Two(int places) {
    return {{.name = "a", .max_concurrency = places}, {.name = "b", .max_concurrency = places}};
  }
  static ReplicaRules RulesOf(int tenants) {
    ReplicaRules rules;
    rules.tenants = tenants;
    rules.table_entries = 1 << 10;
    return rules;
  }
  void Start(int places, int tenants) {
    replicas_ = std::make_unique<Replicas>(Two(places), RulesOf(tenants));
    entries_ = std::make_unique<DispatchEntries>(tenants, size_t{2}, 100);
    places_ = std::make_unique<DispatchPlaces>(replicas_.get(), &entries_->tenants());
  }
  DispatchEntry* Add(const std::string& tenant, Priority priority = Priority::kMedium) {
    DispatchRequest request;
    request.id = entries_->size() + 1;
    request.tenant = tenant;
    request.priority = priority;
    entries_->Reserve(1);
    DispatchEntry* const entry =
        entries_->Insert(std::make_unique<DispatchEntry>(std::move(request), 0));
    entries_->Wait(entry);
    return entry;
  }
  // Sends one of the tenant there.
  void Send(const std::string& tenant, int replica) {
    DispatchEntry* const entry = Add(tenant);
    const bool newcomer = (entry->tenant->there & MaskOf(replica)) == 0;
    entries_->StopWaiting(entry);
    entries_->Send(entry, replica);
    (*replicas_)[replica].OnSent(1, newcomer, now_);
  }

  base::TimePoint now_ = std::chrono::seconds(100);
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<DispatchEntries> entries_;
  std::unique_ptr<DispatchPlaces> places_;
};

TEST_F(DispatchPlacesTest, ALoneTenantHasThemAll) {
  Start(2, 1);
  DispatchEntry* const waits = Add("a");
  for (int i = 0; i < 2; ++i) Send("a", 0);
  const DispatchPlaces::Free free = places_->FreeAt(now_, false);
  EXPECT_EQ(places_->For(*waits, free, false), MaskOf(1));
  EXPECT_TRUE(places_->AnyFree(now_));
  for (int i = 0; i < 2; ++i) Send("a", 1);
  EXPECT_FALSE(places_->AnyFree(now_));
  EXPECT_FALSE(places_->ForNewcomers(now_).kept);
}

TEST_F(DispatchPlacesTest, AReplicaKeepsAPlaceForANewcomer) {
  Start(2, 5);
  DispatchEntry* const more = Add("a");
  DispatchEntry* const newcomer = Add("b");
  Send("a", 0);
  Send("a", 1);
  const DispatchPlaces::Free free = places_->FreeAt(now_, false);
  EXPECT_EQ(places_->For(*more, free, false), ReplicaMask{0});
  EXPECT_EQ(places_->For(*newcomer, free, false), MaskOf(0) | MaskOf(1));
  EXPECT_EQ(places_->ForNewcomers(now_).slots, 2);
  EXPECT_EQ(places_->ForNewcomers(now_).free, 2);
  EXPECT_TRUE(places_->AnyFree(now_)) << "b's";
}

TEST_F(DispatchPlacesTest, OfSinglePlacesTheLastIsForNewcomers) {
  Start(1, 5);
  DispatchEntry* const more = Add("a");
  DispatchEntry* const newcomer = Add("b");
  Send("a", 0);
  const DispatchPlaces::Free free = places_->FreeAt(now_, false);
  EXPECT_EQ(free.last, MaskOf(1));
  EXPECT_EQ(places_->For(*more, free, false), ReplicaMask{0});
  EXPECT_EQ(places_->For(*newcomer, free, false), MaskOf(1));
}

TEST_F(DispatchPlacesTest, BeyondThemGoWhatIsUrgentAndNewcomers) {
  Start(2, 5);
  DispatchEntry* const urgent = Add("a", Priority::kHigh);
  DispatchEntry* const newcomer = Add("b");
  DispatchEntry* const more = Add("a");
  for (const int replica : {0, 0, 1, 1}) Send("a", replica);
  EXPECT_TRUE(places_->MayGoBeyond(*urgent));
  EXPECT_TRUE(places_->MayGoBeyond(*newcomer));
  EXPECT_FALSE(places_->MayGoBeyond(*more));
  EXPECT_FALSE(places_->AnyBeyond(now_)) << "no replica preempts";
  uint64_t probe = 0;
  bool ejected = false;
  ASSERT_TRUE((*replicas_)[1].TakeProbe(now_, &probe, &ejected));
  BackendFacts facts;
  facts.preempts = facts.shares_tenants = true;
  (*replicas_)[1].OnProbe(probe, facts, false, now_);
  EXPECT_TRUE(places_->AnyBeyond(now_));
  const DispatchPlaces::Free free = places_->FreeAt(now_, true);
  EXPECT_EQ(places_->For(*urgent, free, true), MaskOf(1));
  EXPECT_EQ(places_->For(*newcomer, free, true), MaskOf(1));
}

TEST_F(DispatchPlacesTest, WhatWasBegunGoesOnWhereItCan) {
  Start(2, 1);
  DispatchEntry* const entry = Add("a");
  EXPECT_EQ(places_->Allowed(*entry), kAllReplicas);
  entry->resumes = true;
  EXPECT_EQ(places_->Allowed(*entry), ReplicaMask{0}) << "what it comes from is not known";
}

}  // namespace
}  // namespace ropeway::gateway
