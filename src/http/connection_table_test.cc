#include "http/connection_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ropeway::http {
namespace {

class ConnectionTableTest : public testing::Test {
 protected:
  // A connection as the table sees it.
  struct Peer {
    std::unique_ptr<ConnectionTable::Place> place;
    std::shared_ptr<bool> closed = std::make_shared<bool>(false);
  };

  Peer Open(const std::string& account) {
    Peer peer;
    peer.place = table_.Open(account, [closed = peer.closed] { *closed = true; });
    return peer;
  }

  // Opens connections of `account`; with `tenant`, each has a request of the tenant under way.
  std::vector<Peer> OpenMany(int count, const std::string& account, const std::string& tenant) {
    std::vector<Peer> peers;
    for (int i = 0; i < count; ++i) {
      peers.push_back(Open(account));
      if (!tenant.empty() && !peers.back().place->Protect(tenant)) peers.pop_back();
    }
    return peers;
  }

  static int CountClosed(const std::vector<Peer>& peers) {
    int closed = 0;
    for (const Peer& peer : peers) closed += *peer.closed ? 1 : 0;
    return closed;
  }

  ConnectionTable table_{100};
};

// From one machine, as behind a proxy: no address is limited, and all places can be used.
TEST_F(ConnectionTableTest, TheOldestStrangerGivesWay) {
  std::vector<Peer> peers = OpenMany(100, "", "");
  EXPECT_EQ(CountClosed(peers), 0);
  EXPECT_EQ(table_.size(), 100U);
  const Peer newer = Open("");
  EXPECT_FALSE(newer.place->probe_only());
  EXPECT_TRUE(*peers[0].closed);
  EXPECT_EQ(CountClosed(peers), 1);
  EXPECT_FALSE(peers[0].place->Protect("a")) << "its request came too late";
  // A request in time protects; its end makes it the newest.
  EXPECT_TRUE(peers[1].place->Protect(""));
  const Peer second = Open("");
  EXPECT_FALSE(*peers[1].closed);
  EXPECT_TRUE(*peers[2].closed);
  peers[1].place->Unprotect(false);
  const std::vector<Peer> many = OpenMany(98, "", "");
  EXPECT_FALSE(*peers[1].closed);
  EXPECT_EQ(CountClosed(peers), 99);
  EXPECT_EQ(table_.evicted(), 100);
  EXPECT_TRUE(*newer.closed);
}

TEST_F(ConnectionTableTest, WhoAuthenticatedIsNotEvictedByStrangers) {
  std::vector<Peer> tenants = OpenMany(30, "", "a");
  for (Peer& peer : tenants) peer.place->Unprotect(false);
  const std::vector<Peer> strangers = OpenMany(500, "", "");
  EXPECT_EQ(CountClosed(tenants), 0);
  EXPECT_EQ(CountClosed(strangers), 430);
  EXPECT_EQ(table_.size(), 100U);
}

TEST_F(ConnectionTableTest, AnAddressHasHalfAtMost) {
  const std::vector<Peer> greedy = OpenMany(200, "addr:1.1.1.1", "");
  EXPECT_EQ(table_.size(), 50U) << "its oldest gave way to its own";
  EXPECT_EQ(CountClosed(greedy), 150);
  const std::vector<Peer> other = OpenMany(20, "addr:2.2.2.2", "");
  EXPECT_EQ(CountClosed(other), 0);
  EXPECT_EQ(CountClosed(greedy), 150);
}

// Also of requests under way; then one of its idle connections goes, or there is no place.
TEST_F(ConnectionTableTest, ATenantHasHalfAtMost) {
  std::vector<Peer> greedy = OpenMany(200, "", "a");
  EXPECT_EQ(greedy.size(), 50U);
  const std::vector<Peer> modest = OpenMany(10, "", "b");
  EXPECT_EQ(modest.size(), 10U);
  greedy[7].place->Unprotect(false);
  greedy[3].place->Unprotect(false);
  Peer next = Open("");
  EXPECT_TRUE(next.place->Protect("a"));
  EXPECT_TRUE(*greedy[7].closed) << "idle for longest";
  EXPECT_FALSE(*greedy[3].closed);
  // A connection that holds a place keeps it for its next request.
  EXPECT_TRUE(greedy[3].place->Protect("a"));
}

TEST_F(ConnectionTableTest, BehindAProxyTheNextRequestMayBeAnybodys) {
  std::vector<Peer> proxied = OpenMany(60, "", "");
  int granted = 0;
  for (Peer& peer : proxied) granted += peer.place->Protect("addr:3.3.3.3") ? 1 : 0;
  EXPECT_GE(granted, 41);
  EXPECT_LE(granted, 50);
  EXPECT_EQ(CountClosed(proxied), 0) << "who has many evicts nobody";
  for (Peer& peer : proxied) peer.place->Unprotect(true);
  EXPECT_TRUE(proxied[0].place->Protect("addr:4.4.4.4"));
  EXPECT_TRUE(proxied[1].place->Protect("addr:3.3.3.3"));
}

// All places are taken by requests under way.
TEST_F(ConnectionTableTest, AFullTableServesProbes) {
  std::vector<Peer> busy = OpenMany(100, "", "");
  for (Peer& peer : busy) ASSERT_TRUE(peer.place->Protect(""));
  std::vector<Peer> probes = OpenMany(64, "", "");
  for (const Peer& probe : probes) {
    EXPECT_TRUE(probe.place->probe_only());
    EXPECT_TRUE(probe.place->Protect("anyone"));
    EXPECT_FALSE(*probe.closed);
  }
  const Peer another = Open("");
  EXPECT_TRUE(another.place->probe_only());
  EXPECT_TRUE(*probes[0].closed) << "the oldest";
  EXPECT_FALSE(*probes[1].closed);
  EXPECT_EQ(CountClosed(busy), 0);
  busy.pop_back();
  EXPECT_FALSE(Open("").place->probe_only());
}

TEST_F(ConnectionTableTest, ATenantThatHoldsLittleAlwaysFindsAPlace) {
  const std::vector<Peer> greedy = OpenMany(200, "", "a");
  const std::vector<Peer> strangers = OpenMany(200, "", "");
  for (int i = 0; i < 20; ++i) {
    Peer peer = Open("");
    ASSERT_FALSE(peer.place->probe_only());
    EXPECT_TRUE(peer.place->Protect("b"));
  }
  EXPECT_EQ(CountClosed(greedy), 0);
}

// They may fill all that is free after each connection of a tenant: it gets its half nevertheless.
TEST_F(ConnectionTableTest, StrangersTakeNothingOfATenantsPart) {
  std::vector<Peer> tenants;
  std::vector<Peer> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers = OpenMany(100, "", "");
    EXPECT_EQ(table_.size(), 100U);
    tenants.push_back(Open(""));
    ASSERT_FALSE(tenants.back().place->probe_only()) << i;
    ASSERT_TRUE(tenants.back().place->Protect("b")) << i;
  }
  EXPECT_EQ(CountClosed(tenants), 0);
  EXPECT_FALSE(Open("").place->Protect("b")) << "it has half of all";
}

// A connection that found no place for its request tells its client so, which takes a moment: it is
// one of the few beyond the limit meanwhile, and gives way as they do.
TEST_F(ConnectionTableTest, WhoFoundNoPlaceGivesWay) {
  const std::vector<Peer> busy = OpenMany(200, "", "a");
  ASSERT_EQ(busy.size(), 50U);
  std::vector<Peer> rejected;
  for (int i = 0; i < 200; ++i) {
    rejected.push_back(Open(""));
    EXPECT_FALSE(rejected.back().place->Protect("a"));
    EXPECT_FALSE(*rejected.back().closed);
  }
  EXPECT_EQ(CountClosed(rejected), 200 - static_cast<int>(ConnectionTable::kProbePlaces));
  EXPECT_EQ(CountClosed(busy), 0);
  EXPECT_EQ(table_.size(), 50U);
  rejected.clear();
  EXPECT_TRUE(Open("").place->Protect("b"));
}

TEST_F(ConnectionTableTest, EvictsForDescriptorsToo) {
  EXPECT_FALSE(table_.EvictOldest());
  std::vector<Peer> peers = OpenMany(3, "", "");
  ASSERT_TRUE(peers[0].place->Protect("a"));
  EXPECT_TRUE(table_.EvictOldest());
  EXPECT_TRUE(*peers[1].closed);
  EXPECT_TRUE(table_.EvictOldest());
  EXPECT_FALSE(table_.EvictOldest());
  EXPECT_FALSE(*peers[0].closed);
  peers.clear();
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(ConnectionTableTest, OneConnectionAtATimeIsEnough) {
  ConnectionTable one(1);
  const auto first = one.Open("", [] {});
  EXPECT_FALSE(first->probe_only());
  const auto second = one.Open("", [] {});
  EXPECT_FALSE(second->probe_only());
  EXPECT_EQ(one.evicted(), 1);
  ASSERT_TRUE(second->Protect("a"));
  EXPECT_TRUE(one.Open("", [] {})->probe_only());
}

TEST_F(ConnectionTableTest, ThreadsComeAndGo) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::vector<std::unique_ptr<ConnectionTable::Place>> places;
      for (int i = 0; i < 3000; ++i) {
        places.push_back(table_.Open(i % 3 == 0 ? "addr:1.1.1.1" : "", [] {}));
        if (i % 2 == 0 && places.back()->Protect(i % 4 == 0 ? "a" : "b")) {
          places.back()->Unprotect(i % 5 == 0);
        }
        if (places.size() > static_cast<size_t>(20 + t)) places.erase(places.begin());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(table_.size(), 0U);
}

}  // namespace
}  // namespace ropeway::http
