// A chat in the terminal: turns of a person and of the model, until Ctrl-D.
#ifndef ROPEWAY_CLI_CHAT_H_
#define ROPEWAY_CLI_CHAT_H_

#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "ropeway/engine.h"

namespace ropeway {

// One answer that is shown as it comes.
struct Answer {
  Result result;
  double seconds = 0.0;      // From Submit to the end.
  bool interrupted = false;  // By Ctrl-C.
};

// Submits `request` and writes its text to `output` as it comes, ended by a line's end; Ctrl-C
// cancels it where `Interrupts` lives. A reader of `output` that is gone cancels it too.
StatusOr<Answer> Stream(Engine* engine, Request request, Output* output);

// What --session names was begun before: says how much of it is there, and replies with true.
bool ShowRestored(const RunFlags& flags, const Engine* engine);

// "12 prompt tokens, 34 tokens in 0.5 s (68.0 tokens/s)"
std::string StatsLine(const Answer& answer);

class Chat {
 public:
  // All must outlive the chat.
  Chat(const RunFlags* flags, Engine* engine, LineReader* lines, Output* output);

  // Until Ctrl-D or /exit. Replies with the exit code.
  int Run();

 private:
  // False at Ctrl-D. A line that ends with '\' goes on in the next one.
  bool ReadMessage(std::string* text);
  // A line that begins with '/'; false where the chat shall end.
  bool Command(const std::string& line);
  void Clear();
  // What the request for `text` holds: with a session, the new messages alone.
  std::vector<ChatMessage> MessagesFor(const std::string& text) const;
  // What the person said, and the model's answer to it; a turn that failed is forgotten.
  void Turn(const std::string& text);

  const RunFlags* const flags_;
  Engine* const engine_;
  LineReader* const lines_;
  Output* const output_;
  std::vector<ChatMessage> messages_;  // Without a session: all so far.
  bool begun_ = false;                 // With a session: it has a turn.
  std::string last_stats_;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_CHAT_H_
