// A chat that the engine keeps, also between two runs of the program: each run is one turn.
//
//   chat_session MODEL.gguf [MESSAGE [STATE_DIRECTORY]]
#include <cstdio>
#include <utility>
#include <vector>

#include "ropeway/engine.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: chat_session MODEL.gguf [MESSAGE [STATE_DIRECTORY]]\n");
    return 2;
  }
  ropeway::EngineOptions options;
  options.model.path = argv[1];
  if (argc > 3)
    options.sessions.state_path = argv[3];  // Sessions are kept here; without it, in memory.
  auto engine = ropeway::Engine::Create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "chat_session: %s\n", engine.status().message().c_str());
    return 1;
  }

  // The new message alone: the engine knows what was said before.
  const char* message = argc > 2 ? argv[2] : "What is a ropeway?";
  ropeway::Request request;
  request.session_id = "my chat";
  request.prompt = ropeway::Chat{.messages = {{"user", message}}};
  request.max_tokens = 60;
  request.sampling.temperature = 0;
  const auto handle = (*engine)->Submit(std::move(request));
  if (!handle.ok()) {
    std::fprintf(stderr, "chat_session: %s\n", handle.status().message().c_str());
    return 1;
  }

  // The turn ends once it is stored.
  const auto result = handle->Wait();
  if (!result.ok() || !result->status.ok()) {
    const ropeway::Status& why = result.ok() ? result->status : result.status();
    std::fprintf(stderr, "chat_session: %s\n", why.message().c_str());
    return 1;
  }
  std::printf("%s\n", result->text.c_str());
  for (const ropeway::SessionInfo& session : (*engine)->Sessions()) {
    std::printf("(session %s: %d tokens before this turn, now %lld in %lld turns)\n",
                session.id.c_str(), result->finish.session_tokens,
                static_cast<long long>(session.tokens), static_cast<long long>(session.turns));
  }
  return 0;
}
