// `ropeway top`: what a server does, in a terminal.
#ifndef ROPEWAY_CLI_TOP_H_
#define ROPEWAY_CLI_TOP_H_

#include <string>

#include "flags/flag.h"

namespace ropeway::cli {

struct TopFlags {
  std::string url = "http://127.0.0.1:8080";
  std::string admin_key;
  bool insecure = false;
  std::string window = "minute";
  bool once = false;
};

// The command. `flags` must outlive it.
flags::Command TopCommand(TopFlags* flags);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_H_
