// The calls of tools of an answer, put together from their pieces.
#ifndef ROPEWAY_BASE_TOOL_CALLS_H_
#define ROPEWAY_BASE_TOOL_CALLS_H_

#include <cstddef>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::base {

// Adds a piece of a call to the calls so far. Returns whether it begins one.
inline bool AddCall(const ToolCallDelta& piece, std::vector<ToolCall>* calls) {
  const auto index = static_cast<size_t>(piece.index);
  if (index > calls->size()) return false;  // No backend of ours leaves one out.
  const bool begins = index == calls->size();
  if (begins) calls->emplace_back();
  ToolCall& call = (*calls)[index];
  call.id += piece.id;
  call.name += piece.name;
  call.arguments += piece.arguments;
  return begins;
}
inline void AddCalls(const std::vector<ToolCallDelta>& pieces, std::vector<ToolCall>* calls) {
  for (const ToolCallDelta& piece : pieces) AddCall(piece, calls);
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_TOOL_CALLS_H_
