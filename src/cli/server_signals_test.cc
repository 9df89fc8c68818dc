// Each test is a process of its own: its signals end it.
#include "cli/server_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace ropeway::cli {
namespace {

using testing::ExitedWithCode;

constexpr int kTooLate = 77;

// Ends the process where `holds` never does.
void WaitFor(const std::function<bool()>& holds) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > patience) _exit(kTooLate);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Send(int signal) { kill(getpid(), signal); }

class ServerSignalsTest : public testing::Test {
 protected:
  ServerSignalsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ServerSignalsTest, AnEndBeforeServingIsLoggedToo) {
  const auto end = [] {
    alarm(60);
    const ServerSignals signals;
    Send(SIGTERM);
    while (true) pause();
  };
  EXPECT_EXIT(end(), ExitedWithCode(0), "stopped; requests answered: 0\n$");
}

// As of a disk that hangs.
TEST_F(ServerSignalsTest, AReadThatHangsDelaysNoEnd) {
  const auto end = [](bool twice) {
    alarm(60);
    ServerSignals signals;
    signals.SetServing();
    std::atomic<bool> reading{false};
    signals.StartReloads([&]() -> ServerSignals::Apply {
      reading = true;
      std::promise<void>().get_future().wait();
      return [] { _exit(kTooLate); };
    });
    Send(SIGHUP);
    WaitFor([&] { return reading.load(); });
    Send(SIGHUP);
    Send(SIGTERM);
    const std::string name = signals.Wait();
    signals.EndReloads();
    if (twice) Send(SIGTERM);
    while (twice) pause();
    _exit(name == "SIGTERM" ? 3 : 4);
  };
  EXPECT_EXIT(end(true), ExitedWithCode(1), "");
  EXPECT_EXIT(end(false), ExitedWithCode(3), "");
}

TEST_F(ServerSignalsTest, WhatWasReadTooLateIsNotApplied) {
  const auto end = [] {
    alarm(60);
    ServerSignals signals;
    std::promise<void> disk;
    std::atomic<bool> reading{false};
    std::atomic<bool> dropped{false};
    signals.StartReloads([&]() -> ServerSignals::Apply {
      reading = true;
      disk.get_future().wait();
      const std::shared_ptr<void> fresh(nullptr, [&](void*) { dropped = true; });
      return [fresh] { _exit(kTooLate); };
    });
    Send(SIGHUP);
    WaitFor([&] { return reading.load(); });
    signals.EndReloads();
    disk.set_value();
    WaitFor([&] { return dropped.load(); });
    _exit(3);
  };
  EXPECT_EXIT(end(), ExitedWithCode(3), "");
}

TEST_F(ServerSignalsTest, ReloadsThatComeWhileOneReadsAreOneMore) {
  const auto end = [] {
    alarm(60);
    ServerSignals signals;
    std::atomic<int> reads{0};
    std::atomic<int> applied{0};
    std::promise<void> disk;
    Send(SIGHUP);  // Before there is anything to reload: it counts when there is.
    signals.StartReloads([&]() -> ServerSignals::Apply {
      if (++reads == 1) disk.get_future().wait();
      if (reads == 2) throw std::runtime_error("a reload that fails does not end the thread");
      return [&] { ++applied; };
    });
    WaitFor([&] { return reads == 1; });
    for (int i = 0; i < 5; ++i) {
      Send(SIGHUP);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    disk.set_value();
    WaitFor([&] { return reads == 2 && applied == 1; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (reads != 2) _exit(4);
    Send(SIGHUP);
    WaitFor([&] { return applied == 2; });
    signals.EndReloads();
    _exit(3);
  };
  EXPECT_EXIT(end(), ExitedWithCode(3), "nothing was changed: a reload that fails");
}

}  // namespace
}  // namespace ropeway::cli
