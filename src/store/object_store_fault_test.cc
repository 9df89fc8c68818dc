// An ObjectStore whose records are damaged, whose disk is full, or whose process is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/object_record.h"
#include "store/object_store.h"
#include "store/session_store.h"
#include "store/test_full_disk.h"
#include "store/test_object_store.h"

namespace ropeway::store {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ObjectStoreFaultTest : public ObjectStoreTest {
 protected:
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(control_->contents.Write(std::vector<StateChange>{{key, value}}).ok());
  }
  static std::string KeyOf(std::string_view prefix, const ObjectName& name) {
    return ObjectDbKey(prefix, ObjectKey(name));
  }
};

TEST_F(ObjectStoreFaultTest, DamageOfAnyByteIsFoundNamedAndNeverServed) {
  Open();
  ASSERT_TRUE(Write({New(Response("root"), "r"), New(Response("other"), "o")}).ok());
  ObjectChange change = New(Response("a"), "state", "root");
  change.open = true;
  ASSERT_TRUE(Write(change).ok());
  for (const std::string_view prefix : {kObjectHead, kObjectFixed, kObjectState}) {
    const std::string key = KeyOf(prefix, Response("a"));
    const std::string record = control_->contents.Read(key).value();
    for (size_t i = 0; i <= record.size(); ++i) {
      SCOPED_TRACE(std::string(prefix) + " " + std::to_string(i));
      store_.reset();
      std::string broken = record;
      if (i < record.size()) broken[i] = static_cast<char>(broken[i] ^ (1 << (i % 8)));
      if (i == record.size()) broken.pop_back();
      Put(key, broken);
      Open();
      const Status status = store_->Read(Response("a")).status();
      ASSERT_EQ(status.code(), StatusCode::kDataLoss);
      ASSERT_THAT(status.message(), HasSubstr("the response 'a' is lost (its "));
      ASSERT_EQ(store_->stats().lost, 1U);
      ASSERT_EQ(StateOf(Response("other")), "o");
    }
    Put(key, record);
    Open();
    ASSERT_EQ(StateOf(Response("a")), "state");
  }
}

TEST_F(ObjectStoreFaultTest, ALostObjectCanOnlyBeDeleted) {
  for (const std::string_view prefix : {kObjectHead, kObjectFixed, kObjectState}) {
    SCOPED_TRACE(prefix);
    Open();
    ObjectChange change = New(Response("a"), "1");
    change.open = true;
    ASSERT_TRUE(Write(change).ok());
    ASSERT_TRUE(Write(New(Talk("c"), "1")).ok());
    const uint64_t bytes = store_->stats().bytes;
    const std::string key = KeyOf(prefix, Response("a"));
    std::string record = control_->contents.Read(key).value();
    record[record.size() / 2] ^= 1;
    Put(key, record);
    Open();
    EXPECT_EQ(CodeOf(Response("a")), StatusCode::kDataLoss);
    EXPECT_EQ(store_->stats().bytes, bytes) << "it counts until it is gone";
    EXPECT_TRUE(store_->Opened().empty());
    for (const ObjectInfo& info : store_->List(nullptr)) {
      EXPECT_EQ(info.lost, info.name == Response("a"));
    }
    EXPECT_EQ(Write({Changed(Talk("c"), "2"), Changed(Response("a"), "2")}).code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(Write(New(Response("b"), "2", "a")).code(), StatusCode::kDataLoss);
    EXPECT_EQ(StateOf(Talk("c")), "1");
    ASSERT_TRUE(Delete(Response("a")).ok());
    EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
    EXPECT_EQ(Records(), 3);
    ASSERT_TRUE(Write(New(Response("a"), "2")).ok());
    ASSERT_TRUE(Delete(Response("a")).ok());
    ASSERT_TRUE(Delete(Talk("c")).ok());
  }
}

TEST_F(ObjectStoreFaultTest, ALostObjectExpiresTooAndALostAncestorStaysLost) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  ASSERT_TRUE(Write(New(Response("b"), "2", "a")).ok());
  store_.reset();
  const std::string key = KeyOf(kObjectHead, Response("a"));
  std::string record = control_->contents.Read(key).value();
  record[20] ^= 1;
  Put(key, record);
  Open();
  EXPECT_EQ(CodeOf(Response("a"), true), StatusCode::kDataLoss);
  EXPECT_EQ(StateOf(Response("b")), "2");
  ASSERT_TRUE(Delete(Response("a")).ok());
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
  EXPECT_NE(CodeOf(Response("a"), true), StatusCode::kOk);
  now_ms_ += 2000;
  EXPECT_TRUE(Eventually([this] { return Records() == 0; }));
  EXPECT_EQ(store_->stats().objects, 0U);
}

TEST_F(ObjectStoreFaultTest, APartThatIsGoneOrAnothersIsDamage) {
  Open();
  ASSERT_TRUE(Write({New(Response("a"), "1"), New(Response("b"), "1")}).ok());
  const std::string key = KeyOf(kObjectState, Response("a"));
  Put(key, control_->contents.Read(KeyOf(kObjectState, Response("b"))).value());
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kDataLoss);
  const std::vector<StateChange> removal = {{KeyOf(kObjectFixed, Response("b")), std::nullopt}};
  ASSERT_TRUE(control_->contents.Write(removal).ok());
  EXPECT_THAT(store_->Read(Response("b")).status().message(), HasSubstr("fixed part is gone"));
}

TEST_F(ObjectStoreFaultTest, OnAFullDiskNothingNewIsStoredAndOldObjectsChangeInMemory) {
  Open();
  ASSERT_TRUE(Write({New(Response("old"), "1"), New(Talk("c"), "1"), New(Talk("d"), "1")}).ok());
  control_->disk_full = true;
  // One call: the new one is not there, the changes of old ones are.
  EXPECT_EQ(Write({New(Response("new"), "1", "old"), Changed(Talk("c"), "2")}).code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(Response("new")), StatusCode::kNotFound);
  EXPECT_EQ(StateOf(Talk("c")), "2");
  for (const Status& status : {Write(New(Response("new"), "1")), store_->CheckRoom("t", 1)}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "nothing new can be stored now: no space left on device");
  }
  EXPECT_EQ(Write(Changed(Response("old"), "2")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(StateOf(Response("old")), "2");
  EXPECT_EQ(Delete(Talk("d")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(Talk("d")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Talk("x")), StatusCode::kNotFound);
  EXPECT_THAT(Listed(), ElementsAre("old", "c"));
  EXPECT_EQ(store_->stats().failed_writes, 4U);
  EXPECT_EQ(store_->stats().objects, 2U);
  control_->disk_full = false;
  EXPECT_TRUE(Eventually([this] { return store_->CheckRoom("t", 1).ok(); }));
  EXPECT_EQ(Records(), 6);
  EXPECT_TRUE(Write(New(Response("new"), "3")).ok());
  EXPECT_TRUE(Delete(Response("old")).ok()) << "the successor was never there";
  EXPECT_EQ(CodeOf(Response("old"), true), StatusCode::kNotFound);
  Open();
  EXPECT_EQ(StateOf(Talk("c")) + StateOf(Response("new")), "23");
  EXPECT_THAT(Listed(), ElementsAre("c", "new"));
}

TEST_F(ObjectStoreFaultTest, WhatComesDuringAFailingWriteFailsWithWhatItNeeds) {
  Open();
  ASSERT_TRUE(Write(New(Response("old"), "1")).ok());
  ASSERT_TRUE(Write(New(Response("ancestor"), "1")).ok());
  const int writes = control_->writes;
  control_->CloseGate();
  ObjectOutcome made, changed, chained, hidden, of_old;
  ASSERT_TRUE(store_->Write({New(Response("a"), "1", "ancestor")}, made.Fn()).ok());
  ASSERT_TRUE(AWriteWaits(writes));
  ASSERT_TRUE(store_->Write({Changed(Response("a"), "2")}, changed.Fn()).ok());
  ASSERT_TRUE(store_->Write({New(Response("b"), "1", "a")}, chained.Fn()).ok());
  ASSERT_TRUE(store_->Delete(Response("ancestor"), hidden.Fn()).ok());
  ASSERT_TRUE(store_->Write({Changed(Response("old"), "2")}, of_old.Fn()).ok());
  EXPECT_EQ(StateOf(Response("b")), "1");
  control_->disk_full = true;
  control_->OpenGate();
  for (ObjectOutcome* outcome : {&made, &changed, &chained, &hidden, &of_old}) {
    EXPECT_EQ(outcome->Wait().code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Response("b")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Response("ancestor"), true), StatusCode::kNotFound);
  EXPECT_THAT(Listed(), ElementsAre("old"));
  control_->disk_full = false;
  EXPECT_TRUE(Eventually([this] { return store_->CheckRoom("t", 1).ok(); }));
  EXPECT_EQ(Records(), 3);
  EXPECT_EQ(store_->stats().objects, 1U);
  Open();
  EXPECT_EQ(StateOf(Response("old")), "2");
}

TEST_F(ObjectStoreFaultTest, AStartOnAFullDiskReadsTheObjectsOnceThereIsRoom) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  control_->closed = true;
  Open();
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kUnavailable);
  EXPECT_EQ(Write(Changed(Response("a"), "2")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Write(New(Response("b"), "2")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Delete(Response("a")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(store_->CheckRoom("t", 1).code(), StatusCode::kUnavailable);
  EXPECT_THAT(Listed(), IsEmpty());
  control_->closed = false;
  EXPECT_TRUE(Eventually([this] { return store_->CheckRoom("t", 1).ok(); }));
  EXPECT_EQ(StateOf(Response("a")), "1");
  EXPECT_TRUE(Write(Changed(Response("a"), "2")).ok());
}

TEST_F(ObjectStoreFaultTest, AWriteThatMeetsDamageIsTheLastOne) {
  Open();
  ASSERT_TRUE(Write(New(Response("old"), "1")).ok());
  control_->damaged = true;
  const Status met = Write(New(Response("a"), "1"));
  EXPECT_EQ(met.code(), StatusCode::kUnavailable);
  EXPECT_EQ(met.message(), "it cannot be stored now: the files of what is stored are damaged");
  control_->damaged = false;
  const int writes = control_->writes;
  ASSERT_TRUE(Eventually([&] { return control_->writes > writes + 2; }));
  EXPECT_EQ(store_->CheckRoom("t", 1).code(), StatusCode::kUnavailable)
      << "RocksDB forgets it when it is opened anew, until it meets it again";
  EXPECT_EQ(StateOf(Response("old")), "1");
}

TEST_F(ObjectStoreFaultTest, TheDestructorWritesWhatWaits) {
  Open();
  const int writes = control_->writes;
  control_->CloseGate();
  ObjectOutcome first, second;
  ASSERT_TRUE(store_->Write({New(Response("a"), "1")}, first.Fn()).ok());
  ASSERT_TRUE(AWriteWaits(writes));
  ASSERT_TRUE(store_->Write({New(Response("b"), "2")}, second.Fn()).ok());
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    control_->OpenGate();
  });
  store_.reset();
  opener.join();
  EXPECT_TRUE(first.Ended());
  EXPECT_TRUE(second.Ended());
  Open();
  EXPECT_EQ(StateOf(Response("a")) + StateOf(Response("b")), "12");
}

// On a disk of this machine.
class ObjectStoreDiskTest : public testing::Test {
 protected:
  ObjectStoreDiskTest()
      : path_(fs::temp_directory_path() /
              ("ropeway-objects-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(path_);
    options_.state_path = path_;
  }
  ~ObjectStoreDiskTest() override { fs::remove_all(path_); }

  std::unique_ptr<ObjectStore> Open(StateWriter* writer) {
    auto store = ObjectStore::Open(options_, writer);
    EXPECT_TRUE(store.ok());
    return store.ok() ? *std::move(store) : nullptr;
  }
  static Status Write(ObjectStore* store, std::vector<ObjectChange> changes) {
    ObjectOutcome outcome;
    if (Status status = store->Write(std::move(changes), outcome.Fn()); !status.ok()) return status;
    return outcome.Wait();
  }

  const std::string path_;
  SessionOptions options_;
};

// Flips a bit in every 512 bytes of the tables below `path`, but for their ends, which opening
// reads; returns how many tables there are.
int DamageTables(const std::string& path) {
  int tables = 0;
  for (const auto& file : fs::recursive_directory_iterator(path)) {
    if (file.path().extension() != ".sst") continue;
    ++tables;
    std::fstream table(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<int64_t>(fs::file_size(file.path()));
    for (int64_t at = 256; at < size * 4 / 5; at += 512) {
      table.seekg(at);
      const int byte = table.get();
      table.seekp(at);
      table.put(static_cast<char>(byte ^ 1));
    }
  }
  return tables;
}

TEST_F(ObjectStoreDiskTest, OfDamagedFilesClientsLearnNoPathAndNothingNewIsStored) {
  const auto open_writer = [this] {
    auto writer = OpenStateWriter(options_);
    EXPECT_TRUE(writer.ok());
    return *std::move(writer);
  };
  {
    const auto writer = open_writer();
    const auto store = Open(writer.get());
    for (int i = 0; i < 100; ++i) {
      const std::string id = "r" + std::to_string(i);
      ASSERT_TRUE(Write(store.get(), {New(Response(id), std::string(3000, 'a'))}).ok());
    }
  }
  open_writer().reset();  // What the log had is in tables now.
  ASSERT_GT(DamageTables(path_), 0);
  const auto writer = open_writer();
  const auto store = Open(writer.get());
  for (const Status& status :
       {store->Read(Response("r1")).status(), store->Read(Response("r99")).status(),
        store->Read(Response("r99"), true).status(), store->Delete(Response("r1"), nullptr)}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(),
                testing::MatchesRegex("the response 'r[0-9]*' cannot be read now: the files of "
                                      "what is stored are damaged"));
  }
  for (const Status& status :
       {Write(store.get(), {New(Response("new"), "1")}), store->CheckRoom("t", 1)}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "nothing new can be stored now: the files of what is stored are damaged");
  }
}

// The disk is full from the n-th write on, and has room again later.
TEST_F(ObjectStoreDiskTest, WhatWasToldToBeStoredIsThereAfterAFullDisk) {
  for (int64_t n = 1; n < 60; n += 11) {
    SCOPED_TRACE(n);
    fs::remove_all(path_);
    std::map<std::string, std::string> states;
    {
      FullDisk disk;
      auto db = RocksStateDb::Open(path_, 1 << 20, n % 2 == 0, disk.env());
      ASSERT_TRUE(db.ok());
      StateWriter writer(*std::move(db), std::chrono::milliseconds(5));
      const auto store = Open(&writer);
      disk.writes_left = n;
      for (int i = 0; i < 60; ++i) {
        const ObjectName name = Response("r" + std::to_string(i % 20));
        const std::string state(1000, static_cast<char>('a' + i % 26));
        const bool is_new = !states.contains(name.id);
        const Status status =
            Write(store.get(), {is_new ? New(name, state) : Changed(name, state)});
        if (status.ok() || !is_new) states[name.id] = state;
        if (!status.ok()) {
          EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
        }
      }
      ASSERT_TRUE(disk.is_full());
      EXPECT_EQ(store->CheckRoom("t", 1).code(), StatusCode::kUnavailable);
      disk.writes_left = FullDisk::kEndless;
      while (!store->CheckRoom("t", 1).ok()) std::this_thread::yield();
      ASSERT_TRUE(Write(store.get(), {New(Response("after"), "it")}).ok());
      states["after"] = "it";
    }
    auto db = RocksStateDb::Open(path_, 1 << 20, false);
    ASSERT_TRUE(db.ok()) << db.status().message();
    StateWriter again(*std::move(db));
    const auto store = Open(&again);
    for (const auto& [id, state] : states) {
      const StatusOr<Object> object = store->Read(Response(id));
      ASSERT_TRUE(object.ok()) << object.status().message();
      EXPECT_EQ(object->state, state);
    }
    EXPECT_EQ(store->List(nullptr).size(), states.size());
  }
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer kills a forked child that starts threads.
TEST_F(ObjectStoreDiskTest, WhatWasToldToBeStoredSurvivesAKill) {
  constexpr int kPerRound = 40;
  for (int round = 0; round < 3; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      auto writer = OpenStateWriter(options_);
      if (!writer.ok()) _exit(1);
      const auto store = Open(writer->get());
      std::atomic<int> ended{0};
      // Without an end; some are always under way.
      for (int i = 0;; ++i) {
        while (i - ended > 20) std::this_thread::yield();
        const std::string id = std::to_string(round) + "-" + std::to_string(i);
        const ObjectName talk = Talk("c" + std::to_string(round));
        std::vector<ObjectChange> changes = {New(Response(id), std::string(3000, 's') + id)};
        changes.push_back(i == 0 ? New(talk, "0") : Changed(talk, std::to_string(i)));
        const int end = ends[1];
        if (!store
                 ->Write(std::move(changes),
                         [i, end, &ended](const Status& status) {
                           ++ended;
                           const int told = status.ok() ? i : -1;
                           if (write(end, &told, sizeof(told)) != sizeof(told)) _exit(1);
                         })
                 .ok()) {
          _exit(1);
        }
      }
    }
    close(ends[1]);
    int told = -1;
    for (int last = -1; last < kPerRound;) {
      ASSERT_EQ(read(ends[0], &told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
      ASSERT_EQ(told, last + 1);
      last = told;
    }
    kill(child, SIGKILL);
    // What it told before it died counts too.
    for (int more = 0; read(ends[0], &more, sizeof(more)) == sizeof(more);) told = more;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(WTERMSIG(status), SIGKILL);

    auto writer = OpenStateWriter(options_);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    const auto store = Open(writer->get());
    for (int i = 0; i <= told; ++i) {
      const std::string id = std::to_string(round) + "-" + std::to_string(i);
      const StatusOr<Object> object = store->Read(Response(id));
      ASSERT_TRUE(object.ok()) << object.status().message();
      EXPECT_EQ(object->state, std::string(3000, 's') + id);
    }
    // Both or neither: the conversation has the last response's number.
    size_t stored = 0;
    for (const ObjectInfo& info : store->List(nullptr)) {
      stored += info.name.id.starts_with(std::to_string(round) + "-") ? 1 : 0;
    }
    const StatusOr<Object> talk = store->Read(Talk("c" + std::to_string(round)));
    ASSERT_TRUE(talk.ok());
    EXPECT_EQ(talk->state, std::to_string(stored - 1));
    EXPECT_GT(stored, static_cast<size_t>(told));
    EXPECT_EQ(store->stats().lost, 0U);
  }
}
#endif

}  // namespace
}  // namespace ropeway::store
