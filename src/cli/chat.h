// Answers that are streamed to the terminal, and a chat made of them.
#ifndef ROPEWAY_CLI_CHAT_H_
#define ROPEWAY_CLI_CHAT_H_

#include <string>
#include <vector>

#include "base/output.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "ropeway/engine.h"

namespace ropeway::cli {

// An answer that was written to the output while it was generated.
struct StreamedAnswer {
  Result result;
  double seconds = 0.0;      // From Submit to the end.
  bool interrupted = false;  // By Ctrl-C.
};

// Submits `request` and writes its text to `output` as it is generated, with a final line break.
// Ctrl-C cancels the request while an `Interrupts` exists; so does a reader of `output` that is
// gone.
StatusOr<StreamedAnswer> Stream(Engine* engine, Request request, base::Output* output);

// Prints how much of the session of --session is restored; false where it is new or there is none.
bool ShowRestored(const RunFlags& flags, const Engine* engine);

// "12 prompt tokens, 34 tokens in 0.5 s (68.0 tokens/s)"
std::string StatsLine(const StreamedAnswer& answer);

class Chat {
 public:
  // All must outlive the chat.
  Chat(const RunFlags* flags, Engine* engine, LineReader* lines, base::Output* output);

  // Runs until Ctrl-D or /exit. Returns the exit code.
  int Run();

 private:
  // Reads one message; false at Ctrl-D. A line that ends with '\' continues in the next one.
  bool ReadMessage(std::string* text);
  // Carries out a line that begins with '/'; false where the chat is to end.
  bool RunCommand(const std::string& line);
  void Clear();
  // The messages of the request for `text`; with a session, the new ones alone.
  std::vector<ChatMessage> MessagesFor(const std::string& text) const;
  // Sends the user's text and streams the answer; a turn that fails is forgotten.
  void Turn(const std::string& text);

  const RunFlags* const flags_;
  Engine* const engine_;
  LineReader* const lines_;
  base::Output* const output_;
  std::vector<ChatMessage> messages_;  // Without a session: all so far.
  bool begun_ = false;                 // With a session: it has a turn.
  std::string last_stats_;
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_CHAT_H_
