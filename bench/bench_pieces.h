// What the benchmarks of several parts share: the servers that they start, and the file in which
// their figures gather.
#ifndef ROPEWAY_BENCH_BENCH_PIECES_H_
#define ROPEWAY_BENCH_BENCH_PIECES_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/child_server.h"
#include "bench/cpu_time.h"
#include "bench/figures.h"
#include "bench/load_options.h"
#include "bench/put_load.h"
#include "bench/server_probe.h"
#include "cli/engine_flags.h"
#include "net/http_client.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

// Flags that every such benchmark has.
struct BenchPieceFlags {
  std::string base_url;  // "": servers are started.
  std::string model = kDefaultModel;
  int threads = 0;           // 0: the physical cores.
  std::string llama_server;  // A program; "": no peer.
  std::string disk_path;     // Where disk tiers lie; "": the system's folder for temporary files.
  uint64_t seed = 1;
  double timeout = 600;                  // Seconds for one answer.
  std::vector<std::string> contestants;  // By name; empty: all.
  int rounds = 1;
  bool quick = false;
  std::string csv;
  bool append = false;
};

void AddBenchPieceFlags(CLI::App* app, BenchPieceFlags* flags);

// A server under test, which ends with this object where it was started here.
struct TestedServer {
  std::unique_ptr<ChildServer> child;  // Null: it was there.
  BaseUrl url;
  std::string command;  // Without folders; "" where it was there.
  std::string key;      // Of its API; "": none is asked for.
  std::unique_ptr<HttpClient> client;
  ServerFacts facts;

  LoadTarget target() const { return {client.get(), &facts}; }
};

// Starts servers and keeps figures. Thread rule: one thread at a time.
class BenchPieces {
 public:
  explicit BenchPieces(BenchPieceFlags flags) : flags_(std::move(flags)) {}

  // Finds the model and reads the figures to go on with.
  Status Open();

  // A flag of servers that are to queue whatever is offered.
  static constexpr char kRefuseNobody[] = "--max-wait=1h";

  // `ropeway serve` of this program with `extra` flags; `key`: one of the API keys that these name.
  StatusOr<TestedServer> StartRopeway(const std::vector<std::string>& extra,
                                      const std::string& key = "") const;
  // llama-server with so many places of `place_tokens` tokens each.
  StatusOr<TestedServer> StartLlama(int places, int place_tokens) const;
  // The server of --base-url.
  StatusOr<TestedServer> Reach() const;

  // Whether --contestant leaves it in.
  bool Wants(const std::string& contestant);

  // Measures one contestant of one part once, in the round after its last one, unless others are
  // named by --contestant. `measure` adds the figures at the place that it is given.
  Status Measure(const std::string& part, const std::string& contestant,
                 const std::function<Status(const Figure& where)>& measure);

  // Writes --csv, where there is one and something was measured: what the file holds is not lost to
  // a run that comes to nothing.
  Status Save() const;

  // At the end: kInvalidArgument if --contestant names one that was not there.
  Status CheckContestants() const;

  // A new empty folder for a disk tier, gone with the object.
  class DiskFolder {
   public:
    explicit DiskFolder(const std::string& parent);
    ~DiskFolder();
    DiskFolder(const DiskFolder&) = delete;
    DiskFolder& operator=(const DiskFolder&) = delete;
    const std::string& path() const { return path_; }

   private:
    std::string path_;
  };

  const BenchPieceFlags& flags() const { return flags_; }
  const std::string& model_path() const { return model_path_; }
  // Of the model, in f16.
  int64_t kv_bytes_per_token() const { return kv_bytes_per_token_; }
  Figures* figures() { return &figures_; }

 private:
  StatusOr<TestedServer> Start(const std::vector<std::string>& command, uint16_t port,
                               const std::string& key = "") const;
  StatusOr<TestedServer> Connect(TestedServer server) const;
  Status CheckWritable();
  Status Unwritable() const;

  const BenchPieceFlags flags_;
  std::set<std::string> there_;  // The contestants that could be measured.
  size_t read_ = 0;              // Figures before the first one that is measured.
  std::string model_path_;
  int64_t kv_bytes_per_token_ = 0;
  int threads_ = 1;
  Figures figures_;
};

// Says on standard error when what is timed begins and, with the object's end, that it is over: so
// that a script can keep the machine quiet just then.
class Timing {
 public:
  explicit Timing(const Figure& where);
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

 private:
  const std::string name_;
};

// What a server's caches gave, between two looks at its metrics.
class CacheWatch {
 public:
  explicit CacheWatch(const BaseUrl& url);
  // Adds pool_share and disk_share, of the prompt tokens of requests that began since, and
  // disk_read_mib and disk_written_mib; nothing where the server does not tell.
  void AddFigures(const Figure& where, Figures* figures) const;

 private:
  const BaseUrl url_;
  const std::string before_;
};

// What the scheduler did between two looks at a server's metrics.
class SchedulerWatch {
 public:
  // `server` must outlive it.
  explicit SchedulerWatch(const TestedServer* server);
  // Adds place_share (of max_num_seqs, while requests waited), busy_share, preemptions,
  // recomputed_tokens, mean_step_s, rows_per_step and kernels, as far as the server tells.
  void AddFigures(const Figure& where, Figures* figures) const;

 private:
  std::string Page() const;

  const TestedServer* const server_;
  const RealClock clock_;
  const TimePoint begin_;
  const std::string before_;
};

// A list such as "1,2,16": rising whole numbers of at least 1 and at most `most`. kInvalidArgument
// naming `flag` (without dashes) for anything else.
StatusOr<std::vector<int>> ParseCounts(const std::string& flag, const std::string& text, int most);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_PIECES_H_
