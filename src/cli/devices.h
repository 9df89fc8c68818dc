// `ropeway devices`.
#ifndef ROPEWAY_CLI_DEVICES_H_
#define ROPEWAY_CLI_DEVICES_H_

#include "flags/flag.h"

namespace ropeway::cli {

// Lists what --device takes.
flags::Command DevicesCommand();

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_DEVICES_H_
