// Users who chat: each sends its next message when the answer before it is there.
#ifndef ROPEWAY_BENCH_SESSION_RUNNER_H_
#define ROPEWAY_BENCH_SESSION_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/conversation.h"
#include "bench/prompt.h"
#include "bench/request_record.h"
#include "net/http_client.h"

namespace ropeway {

struct SessionShape {
  int users = 1;
  int conversations = 1;        // Of each user, one after the other.
  double request_interval = 0;  // Seconds between the first messages of two users.
  double think_time = 0;        // Seconds from an answer to the next message: the mean of an
                                // exponential distribution. 0: none.
  int first_turn = 0;           // Turns before it are history: they must name their answers.
  double duration = 0;          // No message is sent after so many seconds; 0: no such limit.
  double timeout = 300;         // Of one answer, in seconds.
  uint64_t seed = 1;            // Of the pauses.
};

// A turn as its user saw it.
struct TurnRecord {
  int user = 0;          // From 0.
  int conversation = 0;  // The number that was asked for.
  int turn = 0;          // From 0.
  RequestRecord request;
};

struct SessionResult {
  std::vector<TurnRecord> turns;  // In the order in which they were sent.
  double wall_seconds = 0;        // To the end of the last one.
  double cpu_seconds = 0;         // Of this process.
  bool interrupted = false;       // By Ctrl-C; those in flight then are broken off.
};

// Runs on the caller's thread.
class SessionRunner {
 public:
  using ConversationOf = std::function<Conversation(int number)>;

  // `client` must outlive it. The chats are POSTed to /chat/completions as `request` says.
  SessionRunner(const HttpClient* client, SessionShape shape, RequestShape request,
                ConversationOf conversation_of);

  // Blocks until every user has had its conversations. User u's are numbered u, u + users, and so
  // on. A turn that fails ends its conversation.
  SessionResult Run();

 private:
  const HttpClient* const client_;
  const SessionShape shape_;
  const RequestShape request_;
  const ConversationOf conversation_of_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SESSION_RUNNER_H_
