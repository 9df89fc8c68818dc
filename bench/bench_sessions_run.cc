#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/bench_sessions_command.h"
#include "bench/metrics_page.h"
#include "bench/session_figures.h"
#include "bench/session_runner.h"
#include "bench/sessions_report.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr int kPoolFactor = 3;       // More conversations than the pool holds.
constexpr int kPoolTurns = 4;        // After the history.
constexpr int kTemplateTokens = 16;  // That a chat template adds to a turn, at most.
// The default is made for blocks that are rarely asked for again. Here every one is, and to write
// one costs a tenth of what computing it does.
constexpr char kPoolWriteRate[] = "200MiB/s";
constexpr int64_t kLeastDisk = int64_t{256} << 20;
constexpr int kNextMessageTokens = 20;
constexpr int kNextAnswerTokens = 16;
constexpr int kMaxDialogues = 10000;
// A disk tier has written what it was given when nothing more was written for so long; but so many
// seconds are enough.
constexpr double kQuietSeconds = 2;
constexpr double kMostSettleSeconds = 120;
// With --quick at most.
constexpr int kQuickUsers = 3;
constexpr int kQuickRestartChats = 2;
// What the history says was answered where it does not matter.
constexpr char kShortAnswer[] = "I see.";

// Tokens of all messages and answers, and what a template adds.
int TokensOf(const Conversation& conversation) {
  int tokens = kTemplateTokens;
  for (const ChatTurn& turn : conversation) {
    // A random word and the space before it are one token; of others' texts four bytes.
    const auto words = static_cast<int>(std::count(turn.user.begin(), turn.user.end(), ' ')) + 1;
    const auto bytes = static_cast<int>(turn.user.size());
    tokens += std::max(words, bytes / 4) + turn.max_tokens + kTemplateTokens;
  }
  return tokens;
}

class SessionsBench {
 public:
  explicit SessionsBench(const BenchSessionsFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      for (const auto& [name, part] :
           {std::pair("chats", &SessionsBench::Chats), std::pair("pool", &SessionsBench::Pool),
            std::pair("restart", &SessionsBench::Restart)}) {
        if (!Wants(name)) continue;
        if (Status status = (this->*part)(); !status.ok()) return status;
      }
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return SessionsReport(*pieces_.figures()); }

 private:
  static BenchSessionsFlags MadeQuick(BenchSessionsFlags flags) {
    if (flags.pieces.quick) {
      flags.users = std::min(flags.users, kQuickUsers);
      flags.restart_chats = std::min(flags.restart_chats, kQuickRestartChats);
    }
    return flags;
  }

  bool Wants(const std::string& part) const {
    if (!flags_.pieces.base_url.empty()) return part == "chats";
    return flags_.part == part || flags_.part == "all";
  }

  Status Check() {
    if (!flags_.pieces.base_url.empty() && (flags_.part == "pool" || flags_.part == "restart")) {
      return InvalidArgument(
          "--part: pool and restart start servers of their own, which --base-url excludes", "part");
    }
    if (flags_.dialogues.empty()) return {};
    auto dialogues = ReadDialogues(flags_.dialogues, kMaxDialogues);
    if (!dialogues.ok()) return dialogues.status();
    dialogues_ = *std::move(dialogues);
    return {};
  }

  Conversation Chat(int number) const {
    if (!dialogues_.empty()) return dialogues_[static_cast<size_t>(number) % dialogues_.size()];
    return RandomConversation(flags_.pieces.seed, number, flags_.turns, flags_.lengths);
  }

  SessionShape Shape() const {
    SessionShape shape;
    shape.users = flags_.users;
    shape.conversations = flags_.conversations;
    shape.request_interval = flags_.request_interval;
    shape.think_time = flags_.think_time;
    shape.duration = flags_.duration;
    shape.timeout = flags_.pieces.timeout;
    shape.seed = flags_.pieces.seed;
    return shape;
  }

  // One run against `server`. Fails where a turn failed or Ctrl-C came.
  StatusOr<SessionResult> Talk(const TestedServer& server, const SessionShape& shape,
                               const SessionRunner::ConversationOf& conversation_of) const {
    RequestShape request;
    request.model = server.facts.model;
    request.chat = true;
    request.ignore_eos = server.facts.ignore_eos;
    SessionRunner runner(server.client.get(), shape, request, conversation_of);
    SessionResult result = runner.Run();
    if (result.interrupted) return Status(StatusCode::kCancelled, "interrupted");
    for (const TurnRecord& turn : result.turns) {
      if (turn.request.ok()) continue;
      return Status(StatusCode::kUnavailable,
                    fmt::format("turn {} of a chat failed: {}: {}", turn.turn + 1,
                                turn.request.error_kind, turn.request.error));
    }
    return result;
  }

  // Measures chats as `conversation_of` makes them, and adds the figures.
  Status TalkAndCount(const TestedServer& server, const SessionShape& shape,
                      const SessionRunner::ConversationOf& conversation_of, const Figure& where) {
    const CacheWatch caches(server.url);
    StatusOr<SessionResult> result = [&] {
      const Timing timing(where);
      return Talk(server, shape, conversation_of);
    }();
    if (!result.ok()) return result.status();
    Figures* const figures = pieces_.figures();
    AddSessionFigures(*result, MachineCpus(), where, figures);
    caches.AddFigures(where, figures);
    if (!server.command.empty()) figures->Add(where, "command", server.command);
    return {};
  }

  // What the chats are asked of.
  StatusOr<TestedServer> StartFor(const std::string& contestant) const {
    if (contestant == sessions::kServer) return pieces_.Reach();
    if (contestant == sessions::kStateful) return pieces_.StartRopeway({});
    if (contestant == sessions::kStateless) {
      return pieces_.StartRopeway({"--prefix-caching", "off"});
    }
    int longest = 0;
    for (int i = 0; i < flags_.users * flags_.conversations; ++i) {
      longest = std::max(longest, TokensOf(Chat(i)));
    }
    // Rounded up: -c is raised until every request fits.
    return pieces_.StartLlama(flags_.users, (longest + 1023) / 1024 * 1024);
  }

  std::vector<std::string> Contestants() const {
    if (!flags_.pieces.base_url.empty()) return {sessions::kServer};
    std::vector<std::string> names;
    if (flags_.mode != "stateless") names.emplace_back(sessions::kStateful);
    if (flags_.mode != "stateful") names.emplace_back(sessions::kStateless);
    if (!flags_.pieces.llama_server.empty() && !flags_.pieces.quick) {
      names.emplace_back(sessions::kLlama);
    }
    return names;
  }

  Status Chats() {
    const char* const part = dialogues_.empty() ? sessions::kChats : sessions::kDialogues;
    for (const std::string& contestant : Contestants()) {
      const Status status = pieces_.Measure(part, contestant, [&](const Figure& where) -> Status {
        auto server = StartFor(contestant);
        if (!server.ok()) return server.status();
        pieces_.figures()->Add(where, "load", LoadText());
        return TalkAndCount(
            *server, Shape(), [this](int number) { return Chat(number); }, where);
      });
      if (!status.ok()) return status;
    }
    return {};
  }

  std::string LoadText() const {
    const ChatLengths& lengths = flags_.lengths;
    const std::string what =
        dialogues_.empty()
            ? fmt::format(
                  "{} turns; first messages, later ones and answers log-normal, medians "
                  "{}, {} and {} tokens, spread {:g}",
                  flags_.turns, lengths.first_tokens, lengths.user_tokens, lengths.answer_tokens,
                  lengths.spread)
            : "dialogues of a file, answers as long as the file's";
    return fmt::format(
        "{} users, {} conversation{} each of {}; think time {:g} s, users begin {:g} s apart, {}"
        "seed {}",
        flags_.users, flags_.conversations, flags_.conversations == 1 ? "" : "s", what,
        flags_.think_time, flags_.request_interval,
        flags_.duration > 0 ? fmt::format("no message after {:g} s, ", flags_.duration) : "",
        flags_.pieces.seed);
  }

  // A long first message that was answered shortly, and further turns.
  Conversation ChatWithHistory(int number) const {
    ChatLengths lengths = flags_.lengths;
    lengths.first_tokens = lengths.user_tokens;
    Conversation chat = RandomConversation(flags_.pieces.seed + 1, number, kPoolTurns, lengths);
    ChatTurn history =
        RandomTurn(flags_.pieces.seed + 1, 1'000'000 + number, flags_.history_tokens, 1);
    history.assistant = kShortAnswer;
    chat.insert(chat.begin(), std::move(history));
    return chat;
  }

  // Three times as many chats as before, in a pool that holds all of them or a third.
  Status Pool() {
    const int users = kPoolFactor * flags_.users;
    int64_t tokens = 0;
    for (int i = 0; i < users; ++i) tokens += TokensOf(ChatWithHistory(i));
    const int64_t bytes = tokens * pieces_.kv_bytes_per_token();
    const std::string third = std::to_string(bytes / kPoolFactor);
    // Room for blocks that are half empty, and for those of chats that end and are kept.
    const std::string all = std::to_string(bytes + bytes / 4);
    const BenchPieces::DiskFolder disk(flags_.pieces.disk_path);
    const std::vector<std::pair<std::string, std::vector<std::string>>> contestants = {
        {sessions::kUnlimited, {"--kv-cache-size", all}},
        {sessions::kThird,
         {"--kv-cache-size", third, "--kv-disk-path", disk.path(), "--kv-disk-size",
          std::to_string(std::max(kLeastDisk, 4 * bytes)), "--kv-disk-write-rate", kPoolWriteRate}},
        {sessions::kThirdAlone, {"--kv-cache-size", third}}};
    for (const auto& [contestant, extra] : contestants) {
      if (flags_.pieces.quick && contestant == sessions::kThirdAlone) continue;
      const Status status = pieces_.Measure(
          sessions::kPool, contestant,
          [&, &extra = extra](const Figure& where) { return PoolPiece(extra, users, where); });
      if (!status.ok()) return status;
    }
    return {};
  }

  Status PoolPiece(const std::vector<std::string>& extra, int users, const Figure& where) {
    auto server = pieces_.StartRopeway(extra);
    if (!server.ok()) return server.status();
    const auto chat = [this](int number) { return ChatWithHistory(number); };
    SessionShape shape = Shape();
    shape.users = users;
    shape.conversations = 1;
    shape.request_interval = 0;
    // What was said before; in no figure.
    auto history = Talk(*server, shape, [&](int number) {
      Conversation first = chat(number);
      first.resize(1);
      return first;
    });
    if (!history.ok()) return history.status();
    pieces_.figures()->Add(where, "settle_s", Settle(*server));
    shape.first_turn = 1;
    pieces_.figures()->Add(
        where, "load",
        fmt::format("{} users, each with a history of {} tokens; {} turns, think time {:g} s",
                    users, flags_.history_tokens, kPoolTurns, flags_.think_time));
    return TalkAndCount(*server, shape, chat, where);
  }

  // The next turn of chats whose server was stopped and started again.
  Status Restart() {
    const BenchPieces::DiskFolder disk(flags_.pieces.disk_path);
    const std::vector<std::string> extra = {"--kv-disk-path", disk.path()};
    SessionShape shape = Shape();
    shape.users = 1;
    shape.conversations = flags_.restart_chats;
    shape.request_interval = 0;
    shape.think_time = 0;
    Status status =
        pieces_.Measure(sessions::kRestart, sessions::kPrefill, [&](const Figure& where) -> Status {
          auto server = pieces_.StartRopeway(extra);
          if (!server.ok()) return server.status();
          const Status talked = TalkAndCount(
              *server, shape,
              [this](int number) {
                Conversation first = RestartedChat(number);
                first.resize(1);
                return first;
              },
              where);
          pieces_.figures()->Add(where, "settle_s", Settle(*server));
          return talked;
        });
    if (!status.ok()) return status;
    shape.first_turn = 1;
    return pieces_.Measure(
        sessions::kRestart, sessions::kNextTurn, [&](const Figure& where) -> Status {
          auto server = pieces_.StartRopeway(extra);
          if (!server.ok()) return server.status();
          return TalkAndCount(
              *server, shape, [this](int number) { return RestartedChat(number); }, where);
        });
  }

  Conversation RestartedChat(int number) const {
    const uint64_t seed = flags_.pieces.seed + 2;
    ChatTurn first = RandomTurn(seed, number, flags_.restart_tokens, kNextAnswerTokens);
    first.assistant = kShortAnswer;
    return {first, RandomTurn(seed, 1'000'000 + number, kNextMessageTokens, kNextAnswerTokens)};
  }

  // Lets the server's disk tier write, which it does at a bounded rate; says how long that took.
  double Settle(const TestedServer& server) const {
    const RealClock clock;
    const TimePoint begin = clock.Now();
    TimePoint last_change = begin;
    double written = -1;
    while (ToSeconds(clock.Now() - last_change) < kQuietSeconds &&
           ToSeconds(clock.Now() - begin) < kMostSettleSeconds) {
      const double now =
          MetricSum(FetchMetrics(server.url), "ropeway_kv_disk_written_bytes_total", "")
              .value_or(0);
      if (now != written) last_change = clock.Now();
      written = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return ToSeconds(last_change - begin);
  }

  BenchSessionsFlags flags_;
  BenchPieces pieces_;
  std::vector<Conversation> dialogues_;
};

}  // namespace

int RunBenchSessions(const BenchSessionsFlags& flags) {
  SessionsBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
