// How many connections there may be, whose they are, and which of them gives way to another.
#ifndef ROPEWAY_HTTP_CONNECTION_TABLE_H_
#define ROPEWAY_HTTP_CONNECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/shared_budget.h"

namespace ropeway::http {

// The places of all connections, shared between accounts (base::SharedBudget). A connection belongs
// to its address until its client authenticates, then to the tenant. If a new connection finds no
// place, the oldest idle one without an authenticated client is evicted. If there is none, the new
// one gets one of a few places beyond the limit, which serve health probes and the admin alone. A
// connection that has no place for its request gets such a place too, until its client was told so.
//
// Thread rule: any thread; a Place from one thread at a time. Must outlive its Places.
class ConnectionTable {
 public:
  // Places beyond the limit. They are always evicted for a newer one.
  static constexpr size_t kProbePlaces = 64;

  // Closes the connection of an evicted place, later. Called under the table's lock: must neither
  // block nor call back.
  using CloseFn = std::function<void()>;

  explicit ConnectionTable(int max_connections);
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // One connection's place, returned by the destructor.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // There is no place for it: the connection may ask for health, or as the admin, and for nothing
    // else.
    bool probe_only() const { return probe_only_; }

    // Gives the connection to `account` ("": leaves it with its account) and protects it from
    // eviction until Unprotect. Returns false if the account has too many connections and each has
    // a request under way, or if this one is evicted already. It must end then, and is probe_only()
    // meanwhile.
    bool Protect(const std::string& account);
    // The request is answered: the connection may be evicted again. `forget` gives
    // it back to its first account: behind a proxy the next request may come from another client.
    void Unprotect(bool forget);

   private:
    friend class ConnectionTable;
    using List = std::list<Place*>;
    struct Account {
      size_t places = 0;
      List idle;  // Those that can be evicted, the oldest first.
    };
    using Accounts = std::map<std::string, Account, std::less<>>;

    Place(ConnectionTable* table, std::string stranger, CloseFn close);

    ConnectionTable* const table_;
    const std::string stranger_;  // Its account until a client authenticates.
    const CloseFn close_;
    // All members below change on the Place's thread alone, and under the table's lock.
    bool probe_only_ = false;
    bool evicted_ = false;
    bool protected_ = false;
    Accounts::iterator account_;  // end(): none.
    base::SharedBudget::Hold hold_;
    // The lists' nodes while it is not in them, so that to enter one takes no memory.
    List account_node_;
    List stranger_node_;
    const List::iterator in_account_;
    const List::iterator in_strangers_;
  };

  // A place for a new connection of `account`; "": one whose address has no limit of its own. Never
  // null. Throws std::bad_alloc.
  std::unique_ptr<Place> Open(std::string account, CloseFn close);

  // Evicts the oldest connection that can be; false if there is none.
  bool EvictOldest();

  int64_t evicted() const;
  size_t size() const;  // Without the places for probes.

 private:
  using List = Place::List;
  using Accounts = Place::Accounts;

  // REQUIRES of all methods below: mutex_ is held.
  bool Enter(Place* place, const std::string& name);
  void EnterProbes(Place* place);
  bool EvictStrangersFor(const std::string& name);
  void Exit(Place* place);
  void AddIdle(Place* place);
  void RemoveIdle(Place* place);
  void Evict(Place* place);

  mutable std::mutex mutex_;
  base::SharedBudget places_;  // GUARDED_BY(mutex_)
  Accounts accounts_;          // GUARDED_BY(mutex_)
  // Idle connections without an authenticated client, the oldest first. GUARDED_BY(mutex_)
  List strangers_;
  List probes_;          // All that are probe_only, the oldest first. GUARDED_BY(mutex_)
  uint64_t opened_ = 0;  // GUARDED_BY(mutex_)
  int64_t evicted_ = 0;  // GUARDED_BY(mutex_)
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_CONNECTION_TABLE_H_
