// The values that a template computes with (Python's, as far as templates need them), the errors of
// the interpreter, and the bounds of one rendering.
#ifndef ROPEWAY_TOKENIZER_JINJA_VALUE_H_
#define ROPEWAY_TOKENIZER_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/spans.h"

namespace ropeway::tokenizer::jinja {

// Thrown within the interpreter only; ChatTemplate turns it into a Status.
struct Error : std::runtime_error {
  Error(int line, const std::string& message) : std::runtime_error(message), line(line) {}
  int line;
};

// The template called raise_exception: it rejects the messages.
struct Raised : Error {
  using Error::Error;
};

// Throws std::invalid_argument. The interpreter adds the line and makes it an Error.
[[noreturn]] void Reject(const std::string& message);

class Value;
struct Callable;
struct Loop;
struct Namespace;

// The memory of one value, counted in the rendering that runs on this thread when it is made (see
// Context), if one does, as long as the value lives. REQUIRES: it does not outlive the rendering.
class Held {
 public:
  explicit Held(size_t bytes);
  ~Held() {
    if (live_ != nullptr) *live_ -= bytes_;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  size_t* const live_;
  const size_t bytes_;
};

// A string, and which of its bytes a chat's messages said: `quoted`. The rest is the template's.
// Whatever makes a string of others keeps account of it, byte for byte; only what has a letter's
// case changed in a mixed string counts as quoted as a whole.
struct Str {
  std::string text;
  Spans quoted = {};
};

// `part` of `whole`. REQUIRES: `part` is a view of whole.text.
Str PartOf(const Str& whole, std::string_view part);
// Whether a byte of it is quoted.
bool AnyQuoted(const Str& whole, std::string_view part);
// `text`, which was made from `source`: all of it is quoted if any byte of that is.
Str MadeFrom(std::string text, const Str& source);

using List = std::vector<Value>;
// In order of insertion. Keys are strings, numbers or none. Templates' dictionaries are small.
using Dict = std::vector<std::pair<Value, Value>>;

// The value of a name or an item that does not exist. It prints as nothing; any other use is an
// error with the message `why`, which each copy holds.
struct Undefined {
  std::string why;
};
struct None {};

// Cheap to copy: strings, lists and dictionaries are shared and immutable, as in the sandbox that
// Hugging Face renders in. Throws std::length_error where values would nest more than kMaxDepth
// deep: they are freed, compared and written by recursion.
class Value {
 public:
  static constexpr int kMaxDepth = 100;

  Value() : data_(None{}) {}
  // Out of line: the variant's copies and destructors are compiled once.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  // The value of a name that is not defined.
  static Value Missing(const std::string& name) { return Absent("'" + name + "' is undefined"); }
  static Value Absent(std::string why);
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(double value) { return Value(Data(value)); }
  static Value Of(std::string value) { return Of(Str{std::move(value)}); }
  static Value Of(Str value);
  static Value Of(std::string_view value) { return Of(std::string(value)); }
  static Value Of(const char* value) { return Of(std::string(value)); }
  static Value Of(List items);
  static Value Tuple(List items);
  static Value Of(Dict entries);
  static Value Of(Callable callable);
  static Value Of(std::shared_ptr<Loop> loop);
  // The rendering owns the namespace.
  static Value Of(Namespace* space) { return Value(Data(space)); }
  // As the filter "safe" marks it.
  static Value Safe(Str value);

  bool is_undefined() const { return Holds<Undefined>(); }
  bool is_none() const { return Holds<None>(); }
  bool is_bool() const { return Holds<bool>(); }
  bool is_integer() const { return Holds<int64_t>(); }
  bool is_float() const { return Holds<double>(); }
  bool is_string() const { return Holds<StringPtr>(); }
  bool is_list() const { return Holds<ListPtr>(); }  // Or a tuple.
  bool is_tuple() const { return is_list() && std::get<ListPtr>(data_)->is_tuple; }
  bool is_dict() const { return Holds<DictPtr>(); }
  bool is_namespace() const { return Holds<Namespace*>(); }
  bool is_loop() const { return Holds<LoopPtr>(); }
  bool is_callable() const { return Holds<CallablePtr>(); }
  bool is_safe() const { return is_string() && std::get<StringPtr>(data_)->is_safe; }

  // An integer, or a bool, which is 0 or 1 as in Python.
  bool is_integral() const { return is_integer() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  int64_t integer() const;  // REQUIRES: is_integral().
  double number() const;    // REQUIRES: is_number().

  // REQUIRES: the value is of that type. Valid as long as a copy of *this.
  const std::string& string() const { return str().text; }
  const Str& str() const { return std::get<StringPtr>(data_)->str; }
  const List& list() const { return std::get<ListPtr>(data_)->items; }
  const Dict& dict() const { return std::get<DictPtr>(data_)->entries; }
  const std::string& why() const { return std::get<Undefined>(data_).why; }
  const Callable& callable() const { return *std::get<CallablePtr>(data_); }
  const Loop& loop() const { return *std::get<LoopPtr>(data_); }
  Namespace& space() const { return *std::get<Namespace*>(data_); }

  // Python's bool().
  bool Truth() const;
  // The entry of a dictionary with a string as its key; nullptr if there is none.
  // REQUIRES: is_dict().
  const Value* Find(std::string_view key) const;
  // "a string", "a list", ...: for messages.
  const char* TypeName() const;
  // How many levels of values nest inside this one.
  int Depth() const;

 private:
  struct StringData {
    StringData(Str str, bool is_safe);
    const Str str;
    const bool is_safe;
    const Held held;
  };
  struct ListData {
    ListData(List items, int depth, bool is_tuple);
    const List items;
    const int depth;
    const bool is_tuple;
    const Held held;
  };
  struct DictData {
    DictData(Dict entries, int depth);
    const Dict entries;
    const int depth;
    const Held held;
  };
  using StringPtr = std::shared_ptr<const StringData>;
  using ListPtr = std::shared_ptr<const ListData>;
  using DictPtr = std::shared_ptr<const DictData>;
  using CallablePtr = std::shared_ptr<const Callable>;
  using LoopPtr = std::shared_ptr<const Loop>;
  using Data = std::variant<Undefined, None, bool, int64_t, double, StringPtr, ListPtr, DictPtr,
                            CallablePtr, LoopPtr, Namespace*>;

  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  bool Holds() const {
    return std::holds_alternative<T>(data_);
  }
  static Value MakeList(List items, bool is_tuple);

  Data data_;
};

// The variables of namespace(), the only thing that a template may change. The rendering owns it,
// not the values that name it, so that a cycle of them is freed.
struct Namespace {
  std::vector<std::pair<std::string, Value>> variables;
};

// The variable `loop` of a loop: one object for all its iterations.
struct Loop {
  List items;
  size_t at = 0;
  // The value's depth and memory; Value::Of sets them.
  int depth = 1;
  std::optional<Held> held = {};
};

struct Builtin;
struct Macro;
struct Scope;

// A function or method of the language, or a macro of the template.
struct Callable {
  const Builtin* builtin = nullptr;
  Value self;  // The object that the method was looked up in.
  const Macro* macro = nullptr;
  Scope* scope = nullptr;  // The scope that defines the macro.
};

// Rejects `value` as an argument of `what`; an undefined one with its own message.
[[noreturn]] void RejectValue(const std::string& what, const Value& value);

// Rejects an undefined value with its own message.
void RequireDefined(const Value& value);

// `value` as a string, or RejectValue.
const std::string& StringOf(const char* what, const Value& value);
const Str& StrOf(const char* what, const Value& value);

// What one rendering may take. Steps and `made` bound its time, `held` its memory.
struct Bounds {
  int64_t steps = 0;
  size_t made = 0;  // Bytes that are made or looked at, from first to last.
  size_t held = 0;  // Bytes of values and output at one time.
};

// Thrown when a rendering is not wanted any more.
struct Stopped : std::exception {};

// The budget of one rendering and what its parts share. Thread rule: one thread at a time, which
// renders nothing else meanwhile, except for what `stopped` does.
class Context {
 public:
  // `now` is the time that strftime_now formats. `stopped` is asked about once in a millisecond,
  // with the bytes that values and output take by then. It may render other things before it
  // returns, and return on another thread.
  Context(const Bounds& bounds, const std::tm& now,
          std::function<bool(size_t held)> stopped = nullptr);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Step and the Charge methods spend the budget. They throw std::length_error where it is
  // exceeded, and Stopped.

  // Spends one step.
  void Step();
  // Spends `bytes`. REQUIRES: called before the bytes are allocated or scanned.
  void Charge(size_t bytes) { Spend(bytes, bytes); }
  // Spends less for bytes that are copied in one go, which takes far less time than a look at each.
  void ChargeCopy(size_t bytes) { Spend(bytes, bytes / kCopiedPerByte); }
  // Counts memory that is held to the rendering's end, or to Release.
  void Keep(size_t bytes) { live_ += bytes; }
  void Release(size_t bytes) { live_ -= bytes; }
  // Spends for comparisons with `count` names.
  void ChargeLookups(size_t count);

  // A new string value, charged: the template's own, one made before, or PartOf.
  Value Copy(std::string_view text);
  Value Copy(Str made);
  Value Copy(const Str& whole, std::string_view part);
  Namespace* NewNamespace();
  const std::tm& now() const { return now_; }

  // Held while the interpreter is one level deeper.
  class Deeper {
   public:
    explicit Deeper(Context& context);
    ~Deeper() { --context_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Context& context_;
  };

 private:
  static constexpr size_t kCopiedPerByte = 8;

  void Spend(size_t held, size_t made);
  void AskWhetherStopped();

  size_t live_ = 0;  // First: values end after all that may hold them.
  int64_t steps_;
  size_t bytes_;  // That may still be made.
  const size_t most_held_;
  int64_t ask_at_;  // stopped_ is asked when steps_ or bytes_ falls below these.
  size_t ask_at_bytes_;
  const std::tm now_;
  const std::function<bool(size_t held)> stopped_;
  int depth_ = 0;
  std::deque<Namespace> namespaces_;
};

// Builds a string from parts. The caller charges the text; the account of what is quoted is charged
// here.
class StrBuilder {
 public:
  // `context` must outlive it.
  explicit StrBuilder(Context* context) : context_(context) {}

  // The template's own.
  void Add(std::string_view text);
  void Add(std::string_view text, bool quoted);
  void Add(const Str& str) { AddPart(str, str.text); }
  // REQUIRES: `part` is a view of whole.text.
  void AddPart(const Str& whole, std::string_view part);

  size_t size() const { return text_.size(); }
  Str Take();

 private:
  Context* context_;
  std::string text_;
  Spans quoted_;
};

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_VALUE_H_
