// What `ropeway top` shows, gathered from the events of a server (docs/events.md).
#ifndef ROPEWAY_CLI_TOP_MODEL_H_
#define ROPEWAY_CLI_TOP_MODEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::cli {

// The classes of priority, the most urgent first.
inline constexpr std::array<const char*, 3> kTopClasses = {"high", "medium", "low"};

struct TopRequest {
  int64_t id = 0;
  std::string tenant;
  std::string priority;
  std::string state;
  double age = 0;                        // Seconds.
  std::optional<int64_t> position = {};  // In the queue.
  int64_t prompt = 0;                    // Tokens; 0: not known.
  std::optional<int64_t> computed = {};  // Tokens of the prompt in the KV cache; none: not known.
  std::optional<int64_t> output = {};    // Tokens of the answer; none: not known.
  std::string backend;                   // Of a gateway.
};

struct TopEnded {
  int64_t number = 0;
  int64_t id = 0;
  std::string tenant;
  std::string priority;
  std::string reason;
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t output = 0;
  int64_t preemptions = 0;
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
};

struct TopClass {
  int64_t waiting = 0;
  int64_t running = 0;
  double wait = 0;  // Of a new request, in seconds.
};

struct TopTenant {
  std::string name;
  int64_t waiting = 0;
  int64_t running = 0;
};

struct TopTimes {
  int64_t count = 0;
  double p50 = 0;  // Milliseconds.
  double p95 = 0;
  double p99 = 0;
};

// The last minute, or hour.
struct TopWindow {
  TopTimes ttft;
  TopTimes itl;
  TopTimes e2e;
  TopTimes step;
  int64_t late = 0;
};

struct TopBackend {
  std::string name;
  std::string model;
  std::string state;
  int64_t in_flight = 0;
  int64_t limit = 0;
  double p50 = 0;  // Milliseconds; 0: not known.
  double p99 = 0;
  int64_t sent = 0;
  int64_t completed = 0;
  int64_t retries = 0;
  int64_t resumptions = 0;
  int64_t failures = 0;
};

// The state of a server by the events that came. No text of it has control characters. Thread rule:
// one thread at a time; copies are cheap enough for each screen.
class TopModel {
 public:
  static constexpr size_t kMostEnded = 256;
  static constexpr size_t kMostNameBytes = 256;  // Longer texts are cut.

  // Takes the next event of the stream. `hello` begins anew; events of other types are skipped.
  // kInvalidArgument for one that is none of a Ropeway; the model stays as it was.
  Status Take(std::string_view type, std::string_view data);

  bool greeted() const { return greeted_; }  // `hello` came.
  int64_t frames() const { return frames_; }
  bool knows_steps() const { return !tokens_.empty(); }
  bool gateway() const { return kind == "gateway"; }

  std::string version;
  std::string kind;
  std::vector<std::string> models;
  int64_t slots = 0;  // 0: not bounded.
  std::string strategy;

  std::vector<TopRequest> requests;  // In the order in which they are shown: see Before.
  int64_t requests_left_out = 0;
  std::deque<TopEnded> ended;  // The newest first.
  std::string blocked_by;      // "": none waits.
  std::array<TopClass, 3> classes;
  std::vector<TopTenant> tenants;
  int64_t tenants_left_out = 0;
  int64_t free_blocks = 0;
  int64_t held_blocks = 0;
  int64_t cached_blocks = 0;
  int64_t disk_blocks = 0;
  double prompt_rate = 0;  // Tokens per second.
  double output_rate = 0;
  double busy = 0;  // 0 to 1.
  TopWindow minute;
  TopWindow hour;
  std::vector<TopBackend> backends;

 private:
  void TakeHello(const nlohmann::json& hello);
  void TakeFrame(const nlohmann::json& frame);
  void TakeSteps(const nlohmann::json& steps);
  void TakeRequests(const nlohmann::json& list);
  void TakeEnded(const nlohmann::json& list);
  void TakeQueue(const nlohmann::json& queue);
  void TakeBackends(const nlohmann::json& list);

  bool greeted_ = false;
  int64_t frames_ = 0;  // Since `hello`.
  // By the steps that were seen, for each request: its tokens in the KV cache now, and at most, as
  // a preempted one begins anew.
  struct Tokens {
    int64_t now = 0;
    int64_t most = 0;
  };
  std::unordered_map<int64_t, Tokens> tokens_;
};

// The order of the screen: those that run first, by class and then by age, then those that were
// preempted, those that wait by their positions, and those whose prompts are encoded.
bool Before(const TopRequest& a, const TopRequest& b);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_MODEL_H_
