// The output of a request as OpenAI's JSON. No threads, no I/O: one object per answer, used by one
// thread at a time.
#ifndef ROPEWAY_SERVER_OPENAI_RESPONSE_H_
#define ROPEWAY_SERVER_OPENAI_RESPONSE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// What every part of one answer repeats.
struct AnswerHead {
  std::string id;       // "cmpl-..." or "chatcmpl-...".
  int64_t created = 0;  // Unix seconds.
  std::string model;    // The served name.
  bool chat = false;
  bool include_usage = false;
  bool logprobs = false;
};

// Turns byte offsets in generated text into offsets in characters, as OpenAI's `text_offset`
// counts. Offsets must not decrease.
class TextOffsets {
 public:
  void Append(const std::string& text) { text_ += text; }
  int64_t Characters(uint64_t byte_offset);

 private:
  std::string text_;
  size_t at_ = 0;           // Bytes counted so far.
  int64_t characters_ = 0;  // Characters that begin before at_.
};

// The whole answer to a request that is not streamed.
std::string AnswerJson(const AnswerHead& head, const std::string& text,
                       const std::vector<OutputToken>& tokens, const Finish& finish);

// The events of a streamed answer, each as the bytes of one server-sent event ("data: ...\n\n").
class EventWriter {
 public:
  explicit EventWriter(AnswerHead head);

  // For a chat: the chunk that names the role. For a completion: nothing.
  std::string Begin() const;
  // The text of a delta, and its log-probabilities; nothing where it holds neither.
  std::string Delta(const Delta& delta);
  // The chunk with the finish reason, the usage where asked for, and "[DONE]".
  std::string End(const Finish& finish) const;
  // In place of End, for a request that failed. No "[DONE]" follows: the answer is not complete.
  static std::string Error(const Status& status);

 private:
  std::string Chunk(nlohmann::ordered_json choice) const;

  const AnswerHead head_;
  TextOffsets offsets_;
};

// The list of GET /v1/models, and one entry of it.
std::string ModelsJson(const std::vector<ModelInfo>& models);
std::string ModelJson(const ModelInfo& model);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_OPENAI_RESPONSE_H_
