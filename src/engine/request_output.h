// One request's output: from token ids to text, stop strings and the sink.
#ifndef ROPEWAY_ENGINE_REQUEST_OUTPUT_H_
#define ROPEWAY_ENGINE_REQUEST_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine_core.h"
#include "engine/engine_metrics.h"
#include "engine/live_request.h"
#include "engine/model_answers.h"
#include "ropeway/status.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Begins with OnAdmitted, ends with exactly one of Finish or Fail. No exception of the sink leaves
// it: a sink that throws is treated like one whose reader is gone, and still gets its end.
//
// An end token or stop token counts as generated and is reported with its log-prob, as in vLLM; its
// text is not shown. A stop string's tokens count too, those after it do not. The text of the first
// min_tokens - 1 tokens is not looked at for stop strings, nor as the beginning of one. Of a chat's
// answer the text alone is looked at: within a thought or a call a stop string would leave what no
// client can use.
//
// A request may go on where another engine left off (Request::resume_ids). Its ids so far are
// replayed without telling the sink: held-back text, counts and stop strings are then as if this
// engine had generated them. The last id is generated here again, which shows that this engine goes
// on as the other one would have.
//
// Thread rule: the output thread.
class RequestOutput {
 public:
  enum class Verdict {
    kGoOn,
    kStopString,  // The text ended at a stop string.
    kReaderGone,  // The sink wants no more.
    kDiffers,     // The last of Request::resume_ids came out as another token.
  };

  // All pointers must outlive it; `live` owns it. `answers`: by which live->parser reads; null
  // without one.
  RequestOutput(LiveRequest* live, int32_t prompt_tokens, const tokenizer::Tokenizer* tokenizer,
                const ModelAnswers* answers, EngineMetrics* metrics, const base::Clock* clock);

  // Goes through Request::resume_ids but the last one. Call first. kInvalidArgument if the output
  // had ended before.
  Status Replay();

  // Tells the sink that the request is queued. False if the sink threw: it wants no more.
  bool Admit(const Admission& admission);

  // Takes a kToken, a kPromptScored or a kPooled event emitted at `at`, and hands on what became
  // known. REQUIRES: !closed().
  Verdict Add(const CoreEvent& event, base::TimePoint at);
  // Whether an earlier verdict, or Admit, said that no more tokens are wanted.
  bool closed() const { return verdict_ != Verdict::kGoOn; }
  // Whether the sink has had output.
  bool begun() const { return live_->first_token != base::TimePoint{} || prompt_bytes_ > 0; }
  void SetCachedTokens(int32_t tokens) { finish_.usage.cached_tokens = tokens; }
  void CountPreemption() { ++finish_.preemptions; }

  // The request ended at `at`: hands on the text that was held back, and ends the request: true.
  // False for a session's turn that is to be kept: its state is ready in Turn::next, and End is
  // to be called once that is stored. Until then only Fail may be called besides.
  bool Finish(FinishReason reason, base::TimePoint at);
  // Ends the request: tells the sink, and drops it.
  void End(base::TimePoint at);
  void Fail(const Status& status, base::TimePoint at);

 private:
  Verdict AddToken(const CoreEvent& event, base::TimePoint at);
  Verdict AddScored(const CoreEvent& event);
  Verdict AddPooled(const CoreEvent& event);
  // Whether the token ends the output, once it has min_tokens.
  bool IsEnd(TokenId token) const;
  // Whether the token's text is not shown.
  bool Hidden(TokenId token) const { return tokenizer_->IsSpecial(token) || IsEnd(token); }
  OutputToken MakeToken(TokenId id, uint64_t text_offset) const;
  void AddLogprobs(float logprob, const std::vector<TokenLogprob>& top, OutputToken* token) const;
  // Counts one more token, and adds what can be shown now. Returns whether that ended at a stop
  // string.
  bool Append(TokenId token, Delta* delta);
  // The text that a token adds: of a chat's answer marked text.
  std::string TextOf(TokenId token);
  // Adds what `text` says to the delta. `looks`: for stop strings, too. Returns whether that ended
  // at one.
  bool Read(std::string_view text, bool looks, Delta* delta);
  // Looks for stop strings in what the answer says, and makes of it what can be shown now. Returns
  // whether that ended at one.
  bool LookForStop(std::string* said);
  void Measure(base::TimePoint at);
  // False if the sink wants no more.
  bool Send(Delta delta);
  // Hands on what was held back. Returns the reason of the end, which that text may change.
  FinishReason SendRest(FinishReason reason);
  void KeepTurn();
  void CountEnd(FinishReason reason, base::TimePoint at);

  LiveRequest* const live_;
  const tokenizer::Tokenizer* const tokenizer_;
  const ModelAnswers* const answers_;
  EngineMetrics* const metrics_;
  const base::Clock* const clock_;
  tokenizer::Detokenizer detokenizer_;
  tokenizer::StopMatcher stops_;
  std::string unsaid_;         // What stops_ was given and holds back.
  uint64_t text_bytes_ = 0;    // All tokens' bytes so far, before stop strings are cut.
  std::string shown_;          // The marked text before it was read, of a session's turn.
  uint64_t prompt_bytes_ = 0;  // The prompt's tokens so far, special tokens too.
  Verdict verdict_ = Verdict::kGoOn;
  ropeway::Finish finish_;  // Counts as it goes; the reason, batch and times with Finish.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_REQUEST_OUTPUT_H_
