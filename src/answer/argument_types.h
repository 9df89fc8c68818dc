// The JSON types that a tool's schema gives its arguments.
#ifndef ROPEWAY_ANSWER_ARGUMENT_TYPES_H_
#define ROPEWAY_ANSWER_ARGUMENT_TYPES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ropeway::answer {

// A set of the kinds of JSON values.
using JsonTypes = uint8_t;
inline constexpr JsonTypes kStringType = 1;
inline constexpr JsonTypes kNumberType = 2;
inline constexpr JsonTypes kBooleanType = 4;
inline constexpr JsonTypes kNullType = 8;
inline constexpr JsonTypes kObjectType = 16;
inline constexpr JsonTypes kArrayType = 32;
inline constexpr JsonTypes kQuotedType = 64;  // A string in quotation marks, as JSON has it.
// Nothing is known. Only then the marks around a text are not taken as a part of it.
inline constexpr JsonTypes kAnyType = 127;

// The types of a tool's arguments.
struct ArgumentTypes {
  std::map<std::string, JsonTypes, std::less<>> named = {};
  JsonTypes others = kAnyType;

  JsonTypes Of(std::string_view key) const {
    const auto found = named.find(key);
    return found == named.end() ? others : found->second;
  }
};

// What the JSON Schema of an object, as text, says of its members. What it does not say, or is too
// large to look through, is kAnyType.
ArgumentTypes ReadArgumentTypes(std::string_view schema);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_ARGUMENT_TYPES_H_
