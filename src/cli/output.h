// Moved to base/output.h; for files that still include it here.
#ifndef ROPEWAY_CLI_OUTPUT_H_
#define ROPEWAY_CLI_OUTPUT_H_

#include "base/output.h"

#endif  // ROPEWAY_CLI_OUTPUT_H_
