// A TOML file: as --config, for a program with a flag of each kind, and as --api-keys.
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "flags/program.h"
#include "fuzz/fuzz_target.h"
#include "server/api_keys.h"

namespace ropeway::fuzz {
namespace {

struct Values {
  int port = 1;
  float temperature = 1;
  std::chrono::milliseconds wait{1};
  int64_t size = 16;
  std::vector<std::string> keys;
  std::string level = "low";
  bool raw = false;
  bool stream = true;
  int users = 1;
};

flags::Program MakeProgram(Values* values) {
  using namespace flags;
  Program program;
  program.name = "program";
  program.commands = {
      {"serve",
       "",
       {{"Group",
         {{"--port", IntValue(&values->port, 0, 65535), ""},
          {"--temperature", NumberValue(&values->temperature, 0, 2), ""},
          {"--wait", DurationValue(&values->wait), ""},
          {"--size", SizeValue(&values->size, 16), ""},
          {"--key", TextsValue(&values->keys, "KEY"), ""},
          {"--level", ChoiceValue(&values->level, {"low", "high"}), ""},
          {"--raw", SwitchValue(&values->raw), ""},
          {"--stream,!--no-stream", SwitchValue(&values->stream), ""}}}},
       ""},
      {"bench",
       "",
       {},
       "",
       nullptr,
       {{"serve", "", {{"Group", {{"--users", IntValue(&values->users, 1, 100), ""}}}}, ""}}}};
  return program;
}

void CheckConfig(const std::string& path) {
  Values values;
  const flags::Program program = MakeProgram(&values);
  std::set<const flags::Flag*> given;
  const Status status = flags::ReadConfigFile(program, path, &given);
  if (!status.ok()) return RequirePrintableError(status);
  Require(values.port >= 0 && values.port <= 65535, "port");
  Require(values.temperature >= 0 && values.temperature <= 2, "temperature");
  Require(values.size >= 16, "size");
  Require(values.level == "low" || values.level == "high", "level");
  Require(values.users >= 1 && values.users <= 100, "users");
}

void CheckKeys(const std::string& path) {
  const auto keys = server::ReadApiKeys(path);
  if (!keys.ok()) return RequirePrintableError(keys.status());
  Require(!keys->empty(), "a key file without keys");
  const Status status = server::CheckApiKeys(*keys, "");
  Require(status.ok(), "a key that was read is not valid: " + status.message());
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ropeway::fuzz::MemoryFile file(data, size);
  ropeway::fuzz::CheckConfig(file.path());
  ropeway::fuzz::CheckKeys(file.path());
  return 0;
}
