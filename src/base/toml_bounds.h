// Bounds on a TOML text, held before a parser sees it.
#ifndef ROPEWAY_BASE_TOML_BOUNDS_H_
#define ROPEWAY_BASE_TOML_BOUNDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ropeway::base {

inline constexpr size_t kMaxTomlDepth = 32;        // Brackets and braces within each other.
inline constexpr size_t kMaxTomlKeyParts = 16;     // In a dotted key: a.b.c has three.
inline constexpr size_t kMaxTomlWordBytes = 1024;  // Outside of strings.

// Why a text must not be parsed.
struct TomlFault {
  size_t line = 0;   // Counted from 1.
  std::string what;  // One sentence without its full stop.
};

// The first place of `text` that is beyond these bounds, or that toml++ cannot be given; nullopt:
// there is none. toml++ has three faults. It makes a table of each part of a dotted key and
// destroys tables within tables by recursion, so that 200 kB of "a.a.a" end the process. It takes
// for granted that a table's header has a name. And its behaviour is undefined for letters beyond
// ASCII where space may stand; TOML allows them in strings and comments only. The text is read as a
// parser reads it up to the first syntax error, where the parser stops.
std::optional<TomlFault> FindTomlFault(std::string_view text);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_TOML_BOUNDS_H_
