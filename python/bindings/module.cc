// The Python module ropeway._ropeway: what ropeway/*.py build their classes on. Every call that may
// wait releases Python's lock; the engine's threads never take it.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/engine.h"
#include "bindings/stream.h"

namespace nb = nanobind;

namespace ropeway::python {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
template <typename T>
using Array = nb::ndarray<nb::numpy, T>;

// How long a wait goes on before signals are looked at, so that Ctrl-C interrupts it.
constexpr std::chrono::milliseconds kSlice{50};

// Raises the exception of a status that is not OK.
void Check(const Status& status) {
  if (status.ok()) return;
  const nb::object of_status = nb::module_::import_("ropeway._errors").attr("of_status");
  const nb::object error =
      of_status(static_cast<int>(status.code()), status.message(), status.field(),
                std::string(status.api_code()), status.retry_after_seconds());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

// The result of `call`, made without Python's lock; raises if it failed.
template <typename Call>
auto Unlocked(Call&& call) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return call();
  }();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    Check(result);
  } else {
    Check(result.status());
    return *std::move(result);
  }
}

// A NumPy array of these numbers, which it owns.
template <typename T>
nb::object ArrayOf(std::vector<T> numbers, std::vector<size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(numbers));
  const nb::capsule owner(
      kept, [](void* memory) noexcept { delete static_cast<std::vector<T>*>(memory); });
  return nb::cast(Array<T>(kept->data(), shape.size(), shape.data(), owner));
}

nb::list IdsOf(const std::vector<OutputToken>& tokens) {
  nb::list ids;
  for (const OutputToken& token : tokens) ids.append(token.id);
  return ids;
}

nb::object LogprobsOf(const std::vector<OutputToken>& tokens) {
  std::vector<float> logprobs;
  logprobs.reserve(tokens.size());
  for (const OutputToken& token : tokens) logprobs.push_back(token.logprob);
  return ArrayOf(std::move(logprobs), {tokens.size()});
}

// Of the most probable tokens of each, what `member` points to, as a matrix; `missing` where there
// are fewer.
template <typename T>
nb::object TopOf(const std::vector<OutputToken>& tokens, T TokenLogprob::*member, T missing) {
  size_t most = 0;
  for (const OutputToken& token : tokens) most = std::max(most, token.top_logprobs.size());
  std::vector<T> top(tokens.size() * most, missing);
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t k = 0; k < tokens[i].top_logprobs.size(); ++k) {
      top[i * most + k] = tokens[i].top_logprobs[k].*member;
    }
  }
  return ArrayOf(std::move(top), {tokens.size(), most});
}
nb::object TopIdsOf(const std::vector<OutputToken>& tokens) {
  return TopOf(tokens, &TokenLogprob::id, -1);
}
nb::object TopLogprobsOf(const std::vector<OutputToken>& tokens) {
  return TopOf(tokens, &TokenLogprob::logprob, std::numeric_limits<float>::quiet_NaN());
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

nb::list CallsOf(const std::vector<ToolCall>& calls) {
  nb::list list;
  for (const ToolCall& call : calls) {
    nb::dict dict;
    dict["id"] = call.id;
    dict["name"] = call.name;
    dict["arguments"] = call.arguments;
    list.append(dict);
  }
  return list;
}

nb::dict ResultOf(const Result& result, bool logprobs) {
  Check(result.status);
  nb::dict dict;
  dict["text"] = result.text;
  dict["finish_reason"] = FinishReasonName(result.finish.reason);
  const nb::object none = nb::none();
  dict["token_ids"] = IdsOf(result.tokens);
  dict["logprobs"] = logprobs ? LogprobsOf(result.tokens) : none;
  dict["top_ids"] = logprobs ? TopIdsOf(result.tokens) : none;
  dict["top_logprobs"] = logprobs ? TopLogprobsOf(result.tokens) : none;
  const bool prompt = !result.prompt_tokens.empty();
  dict["prompt_ids"] = prompt ? nb::object(IdsOf(result.prompt_tokens)) : none;
  dict["prompt_logprobs"] = prompt ? LogprobsOf(result.prompt_tokens) : none;
  dict["reasoning"] = result.reasoning;
  dict["tool_calls"] = CallsOf(result.tool_calls);
  dict["embedding"] = result.embedding.empty()
                          ? nb::object(nb::none())
                          : ArrayOf(result.embedding, {result.embedding.size()});
  dict["seed"] = result.finish.seed;
  dict["preemptions"] = result.finish.preemptions;
  nb::dict usage;
  usage["prompt_tokens"] = result.finish.usage.prompt_tokens;
  usage["completion_tokens"] = result.finish.usage.completion_tokens;
  usage["cached_tokens"] = result.finish.usage.cached_tokens;
  usage["reasoning_tokens"] = result.finish.usage.reasoning_tokens;
  dict["usage"] = usage;
  nb::dict times;
  times["queue"] = Seconds(result.finish.times.queue);
  times["prefill"] = Seconds(result.finish.times.prefill);
  times["decode"] = Seconds(result.finish.times.decode);
  dict["times"] = times;
  return dict;
}

// Waits in slices without Python's lock until `wait` says that it is over or `timeout` (seconds;
// negative: none) is; raises what a signal's handler raises.
template <typename Wait>
bool WaitInSlices(double timeout, Wait&& wait) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMost = 1e9;
  const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(std::min(timeout, kMost)));
  for (;;) {
    std::chrono::nanoseconds slice = kSlice;
    if (timeout >= 0) {
      slice = std::clamp<std::chrono::nanoseconds>(limit - Clock::now(),
                                                   std::chrono::nanoseconds(0), slice);
    }
    {
      const nb::gil_scoped_release release;
      if (wait(slice)) return true;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout >= 0 && Clock::now() >= limit) return false;
  }
}

// What Python has of a request.
struct PyHandle {
  Handle handle;
  bool logprobs = false;
};

// One piece of output. Python pays for the attributes that it reads.
struct PyDelta {
  Delta delta;
  bool logprobs = false;
};

bool Says(const Delta& delta) { return delta.says() || !delta.tokens.empty(); }

// A Delta; False where there is none yet, None behind the last.
nb::object Take(const PyHandle& self) {
  bool ended = false;
  std::optional<Delta> delta = self.handle.stream->Take(&ended);
  if (delta && Says(*delta)) return nb::cast(PyDelta{*std::move(delta), self.logprobs});
  if (ended) return nb::none();
  return nb::bool_(false);
}

nb::list PiecesOf(const std::vector<ToolCallDelta>& pieces) {
  nb::list list;
  for (const ToolCallDelta& piece : pieces) {
    nb::dict dict;
    dict["index"] = piece.index;
    dict["id"] = piece.id;
    dict["name"] = piece.name;
    dict["arguments"] = piece.arguments;
    list.append(dict);
  }
  return list;
}

nb::dict ModelOf(const service::ModelInfo& model) {
  nb::dict dict;
  dict["name"] = model.id;
  dict["max_model_len"] = model.max_model_len;
  dict["digest"] = model.digest;
  dict["numerics"] = model.numerics;
  dict["limits"] = model.limits;
  dict["fingerprint"] = model.fingerprint;
  dict["vocabulary"] = model.vocabulary;
  dict["embedding_size"] = model.embedding_size;
  dict["chats"] = model.chats;
  dict["embeds_only"] = model.embeds_only;
  dict["architecture"] = model.details.architecture;
  dict["quantization"] = model.details.quantization;
  dict["parameters"] = model.details.parameters;
  return dict;
}

nb::dict StatsOf(const EngineStats& stats) {
  nb::dict dict;
  dict["strategy"] = stats.strategy;
  dict["max_batch_size"] = stats.max_batch_size;
  dict["queue_depth"] = stats.queue_depth;
  dict["waiting"] = stats.waiting;
  dict["preempted"] = stats.preempted;
  dict["running"] = stats.running;
  dict["total_requests"] = stats.total_requests;
  dict["total_batches"] = stats.total_batches;
  dict["total_steps"] = stats.total_steps;
  dict["total_rows"] = stats.total_rows;
  dict["avg_step_rows"] = stats.avg_step_rows;
  dict["avg_step_size"] = stats.avg_step_size;
  dict["avg_step_duration_ms"] = stats.avg_step_duration_ms;
  dict["kv_blocks_free"] = stats.kv_blocks_free;
  dict["kv_blocks_held"] = stats.kv_blocks_held;
  dict["kv_blocks_cached"] = stats.kv_blocks_cached;
  dict["utilization"] = stats.utilization;
  dict["prompt_tokens_per_second"] = stats.prompt_tokens_per_second;
  dict["generation_tokens_per_second"] = stats.generation_tokens_per_second;
  return dict;
}

nb::list SessionsOf(const std::vector<SessionInfo>& sessions) {
  const auto unix_time = [](SessionInfo::Time time) { return Seconds(time.time_since_epoch()); };
  nb::list list;
  for (const SessionInfo& session : sessions) {
    nb::dict dict;
    dict["id"] = session.id;
    dict["turns"] = session.turns;
    dict["tokens"] = session.tokens;
    dict["created"] = unix_time(session.created);
    dict["last_used"] = unix_time(session.last_used);
    dict["expires"] = unix_time(session.expires);
    dict["turn_under_way"] = session.turn_under_way;
    dict["durable"] = session.durable;
    dict["lost"] = session.lost;
    list.append(dict);
  }
  return list;
}

PyHandle Submit(PythonEngine& self, const std::string& body, bool chat, bool logprobs,
                std::optional<std::vector<TokenId>> prompt_ids, std::vector<TokenId> resume_ids,
                std::string tenant, std::string cache_scope, std::string session, uint32_t choice) {
  Extras extras{.prompt_ids = std::move(prompt_ids),
                .resume_ids = std::move(resume_ids),
                .tenant = std::move(tenant),
                .cache_scope = std::move(cache_scope),
                .session = std::move(session),
                .choice = choice};
  return {Unlocked([&] { return self.Submit(body, chat, std::move(extras)); }), logprobs};
}

std::vector<PyHandle> Embed(PythonEngine& self, const std::string& body,
                            const std::string& tenant) {
  std::vector<PyHandle> handles;
  for (Handle& handle : Unlocked([&] { return self.Embed(body, tenant); })) {
    handles.push_back({std::move(handle), false});
  }
  return handles;
}

void DefineHandle(nb::module_* module) {
  nb::class_<ReadyQueue>(*module, "ReadyQueue")
      .def(nb::new_([] { return std::make_shared<ReadyQueue>(); }))
      .def_prop_ro("fd", &ReadyQueue::fd)
      .def("take", [](ReadyQueue& self) {
        bool all = false;
        std::vector<uint64_t> keys = self.Take(&all);
        return std::make_pair(std::move(keys), all);
      });
  nb::class_<PyHandle>(*module, "Handle")
      .def_prop_ro("id", [](const PyHandle& self) { return self.handle.id; })
      .def_prop_ro("ended", [](const PyHandle& self) { return self.handle.stream->ended(); })
      .def("cancel",
           [](const PyHandle& self) {
             const nb::gil_scoped_release release;
             self.handle.Cancel();
           })
      .def("wait",
           [](const PyHandle& self, double timeout) {
             return WaitInSlices(timeout, [&](std::chrono::nanoseconds slice) {
               return self.handle.stream->WaitForEnd(slice);
             });
           })
      .def("wait_for_output",
           [](const PyHandle& self, double timeout) {
             return WaitInSlices(timeout, [&](std::chrono::nanoseconds slice) {
               return self.handle.stream->WaitForOutput(slice);
             });
           })
      .def("take", &Take)
      .def("result",
           [](const PyHandle& self) {
             return ResultOf(self.handle.stream->result(), self.logprobs);
           })
      .def("notify",
           [](const PyHandle& self, std::shared_ptr<ReadyQueue> queue, uint64_t key,
              bool only_end) { self.handle.stream->Notify(std::move(queue), key, only_end); })
      .def("forget", [](const PyHandle& self, const ReadyQueue& queue, uint64_t key) {
        self.handle.stream->Forget(&queue, key);
      });
}

// What `of` makes of the tokens, where log-probabilities were asked for.
template <nb::object (*of)(const std::vector<OutputToken>&)>
nb::object IfAsked(const PyDelta& self) {
  return self.logprobs ? of(self.delta.tokens) : nb::none();
}

void DefineDelta(nb::module_* module) {
  nb::class_<PyDelta>(*module, "Delta", "What a request has generated since the last delta.")
      .def_prop_ro(
          "text", [](const PyDelta& self) { return self.delta.text; }, "Of the answer.")
      .def_prop_ro(
          "token_ids", [](const PyDelta& self) { return IdsOf(self.delta.tokens); },
          "Their text may come with a later delta: a token may end within a character.")
      .def_prop_ro(
          "logprobs", &IfAsked<&LogprobsOf>,
          "float32, shape (n,): of the raw distribution. None unless `logprobs` was asked for.")
      .def_prop_ro("top_ids", &IfAsked<&TopIdsOf>,
                   "int32, shape (n, k): the most probable tokens; -1 where there are fewer.")
      .def_prop_ro("top_logprobs", &IfAsked<&TopLogprobsOf>,
                   "float32, shape (n, k); NaN where there are fewer.")
      .def_prop_ro(
          "reasoning", [](const PyDelta& self) { return self.delta.reasoning; },
          "What the model thinks before it answers; it is not in `text`.")
      .def_prop_ro(
          "tool_calls", [](const PyDelta& self) { return PiecesOf(self.delta.tool_calls); },
          "Pieces of calls: {\"index\", \"id\", \"name\", \"arguments\"}; id and name with a "
          "call's first.")
      .def("__repr__", [](const PyDelta& self) {
        return nb::str("Delta(text={!r}, token_ids={!r})")
            .attr("format")(self.delta.text, IdsOf(self.delta.tokens));
      });
}

void DefineEngine(nb::module_* module) {
  nb::class_<PythonEngine>(*module, "Engine")
      .def("submit", &Submit)
      .def("embed", &Embed)
      .def("cancel",
           [](PythonEngine& self, RequestId id) { Unlocked([&] { return self.Cancel(id); }); })
      .def("tokenize",
           [](PythonEngine& self, std::string text, bool add_special) {
             return Unlocked([&] { return self.Tokenize(std::move(text), add_special); });
           })
      .def("tokenize_chat",
           [](PythonEngine& self, const std::string& body) {
             return Unlocked([&] { return self.TokenizeChat(body); });
           })
      .def("render_chat",
           [](PythonEngine& self, const std::string& body) {
             return Unlocked([&] { return self.RenderChat(body); });
           })
      .def("detokenize",
           [](PythonEngine& self, const std::vector<TokenId>& ids) {
             return Unlocked([&] { return self.Detokenize(ids); });
           })
      .def("chat_template",
           [](PythonEngine& self) {
             return Unlocked([&] { return self.DescribeTokenizer(); }).chat_template;
           })
      .def("model",
           [](PythonEngine& self) { return ModelOf(Unlocked([&] { return self.Model(); })); })
      .def("stats",
           [](PythonEngine& self) { return StatsOf(Unlocked([&] { return self.Stats(); })); })
      .def("metrics",
           [](PythonEngine& self) { return Unlocked([&] { return self.MetricsText(); }); })
      .def("sessions",
           [](PythonEngine& self, const std::string& tenant) {
             return SessionsOf(Unlocked([&] { return self.Sessions(tenant); }));
           })
      .def("close_session",
           [](PythonEngine& self, const std::string& id, const std::string& tenant) {
             Unlocked([&] { return self.CloseSession(id, tenant); });
           })
      .def("drain",
           [](PythonEngine& self, double timeout) {
             const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::duration<double>(std::clamp(timeout, 0.0, 1e9)));
             Unlocked([&] { return self.Drain(limit); });
           })
      .def("close", [](PythonEngine& self) {
        const nb::gil_scoped_release release;
        self.Close();
      });
  module->def("open", [](const Texts& keywords) {
    EngineOptions options = Unlocked([&] { return OptionsOf(keywords); });
    return Unlocked([&] { return PythonEngine::Open(std::move(options)); });
  });
}

}  // namespace
}  // namespace ropeway::python

NB_MODULE(_ropeway, module) {
  ropeway::python::DefineHandle(&module);
  ropeway::python::DefineDelta(&module);
  ropeway::python::DefineEngine(&module);
  module.attr("__version__") = ROPEWAY_VERSION;
  // What a program still holds at its end is not worth a warning.
  nb::set_leak_warnings(false);
}
