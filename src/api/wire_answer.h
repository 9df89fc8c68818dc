// What a model says in an answer, as servers write it: thoughts, text and calls of tools.
#ifndef ROPEWAY_API_WIRE_ANSWER_H_
#define ROPEWAY_API_WIRE_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire_fields.h"
#include "base/chat_size.h"
#include "ropeway/request.h"

namespace ropeway::api::wire {

// Makes deltas of what the documents of one answer say. Halves of characters are joined over
// documents, within the thoughts, the text and the arguments of each call. In the methods, `marked`
// means that a document was returned by MarkHalves.
class AnswerReader {
 public:
  // An answer with more calls is a fault.
  static constexpr size_t kMostCalls = base::kMostCalls;
  // So is a longer id or name of a call.
  static constexpr size_t kMostNameBytes = base::kMostCallNameBytes;

  explicit AnswerReader(const Request& request);

  // Adds more thoughts and, behind them, more text.
  void Add(std::string thought, std::string text, bool marked, Delta* delta);
  // Adds what a document has as `tool_calls`. Call after Add for the same document.
  //
  // An entry whose `index` is new begins a call. Without an index an entry that has a name does,
  // and one that has none goes on with the last call. The indexes themselves mean nothing: some
  // servers begin at 1, or write 0 for each call, with other ids. But an answer that goes on from
  // what another server generated may go on with a call of that one's, which its index tells.
  // `whole`: each entry that has a name is a call, and one without arguments has none to come.
  void AddCalls(const nlohmann::json& list, bool marked, bool whole, FieldReader* fields,
                Delta* delta);
  // What is left when the answer is over. `whole`: the server says that it ended with whole calls.
  void Rest(bool whole, Delta* delta);

 private:
  struct Call {
    std::optional<uint64_t> index;  // As the server numbers it; nothing: it does not.
    std::string id;                 // As the server has it; "": it has none.
    std::string name;
    HalfJoiner halves;  // Of its arguments.
    bool any = false;   // There were some, or another server may have had them.
  };

  void AddCall(const nlohmann::json& entry, bool marked, bool whole, FieldReader* fields,
               Delta* delta);
  // Where an answer that another server began goes on with call `index`: makes those before known.
  void Resume(uint64_t index, bool begins);
  // The call that an entry goes on with; null: it begins one.
  Call* Find(std::optional<uint64_t> index, std::string_view id, std::string_view name);

  const size_t messages_;  // Of the request's chat.
  const bool resumes_;     // The answer goes on from what another server generated.
  HalfJoiner thought_halves_;
  HalfJoiner text_halves_;
  std::vector<Call> calls_;
};

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_WIRE_ANSWER_H_
