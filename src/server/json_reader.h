// Reads a request body as JSON under bounds: a body can cost neither stack nor memory beyond them.
#ifndef ROPEWAY_SERVER_JSON_READER_H_
#define ROPEWAY_SERVER_JSON_READER_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway {

struct JsonBounds {
  int max_depth = 32;
  size_t max_values = 1'000'000;  // Values and keys together.
};

// The document in `text`. kInvalidArgument, with the byte at fault, for anything that is not one
// JSON document in valid UTF-8, for a key given twice in one object, for a number outside a
// double's range, and for what exceeds `bounds`.
StatusOr<nlohmann::json> ReadJson(std::string_view text, const JsonBounds& bounds);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_JSON_READER_H_
