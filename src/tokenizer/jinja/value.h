// The values that a template computes with: Python's, as far as templates need
// them.
#ifndef ROPEWAY_TOKENIZER_JINJA_VALUE_H_
#define ROPEWAY_TOKENIZER_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ropeway::jinja {

class Value;
struct Callable;
struct Loop;
struct Namespace;

using List = std::vector<Value>;
// In order of insertion. Templates' dictionaries are small. Keys are strings,
// numbers or none.
using Dict = std::vector<std::pair<Value, Value>>;

// What a name or an item stands for that is not there. Printed it is nothing;
// to use it otherwise is an error that says `why`, in a few words: each copy
// has its own.
struct Undefined {
  std::string why;
};
struct None {};

// Cheap to copy: strings, lists and dictionaries are shared and never change,
// as in the sandbox that Hugging Face renders in. Throws std::length_error
// where values would lie within each other more than kMaxDepth deep: they are
// freed, compared and written by recursion.
class Value {
 public:
  static constexpr int kMaxDepth = 100;

  Value() : data_(None{}) {}
  // Of a name that is not there.
  static Value Missing(const std::string& name) { return Absent("'" + name + "' is undefined"); }
  static Value Absent(std::string why);
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(double value) { return Value(Data(value)); }
  static Value Of(std::string value);
  static Value Of(std::string_view value) { return Of(std::string(value)); }
  static Value Of(const char* value) { return Of(std::string(value)); }
  static Value Of(List items);
  static Value Tuple(List items);
  static Value Of(Dict entries);
  static Value Of(Callable callable);
  static Value Of(std::shared_ptr<Loop> loop);
  // Of something that the rendering owns.
  static Value Of(Namespace* space) { return Value(Data(space)); }
  // As the filter "safe" marks it.
  static Value Safe(std::string value);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<StringPtr>(data_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(data_); }  // Or a tuple.
  bool is_tuple() const { return is_list() && std::get<ListPtr>(data_)->is_tuple; }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }
  bool is_namespace() const { return std::holds_alternative<Namespace*>(data_); }
  bool is_loop() const { return std::holds_alternative<LoopPtr>(data_); }
  bool is_callable() const { return std::holds_alternative<CallablePtr>(data_); }
  bool is_safe() const { return is_string() && std::get<StringPtr>(data_)->is_safe; }

  // An integer, or a bool, which is 0 or 1 as in Python.
  bool is_integral() const { return is_integer() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  int64_t integer() const;  // REQUIRES: is_integral().
  double number() const;    // REQUIRES: is_number().

  // REQUIRES: it is one. Valid as long as a copy of *this.
  const std::string& string() const { return std::get<StringPtr>(data_)->text; }
  const List& list() const { return std::get<ListPtr>(data_)->items; }
  const Dict& dict() const { return std::get<DictPtr>(data_)->entries; }
  const std::string& why() const { return std::get<Undefined>(data_).why; }
  const Callable& callable() const { return *std::get<CallablePtr>(data_); }
  const Loop& loop() const { return *std::get<LoopPtr>(data_); }
  Namespace& space() const { return *std::get<Namespace*>(data_); }

  // As Python's bool().
  bool Truth() const;
  // The entry of a dictionary with a string for its key; nullptr if there is
  // none. REQUIRES: is_dict().
  const Value* Find(std::string_view key) const;
  // "a string", "a list", ...: for messages.
  const char* TypeName() const;
  // How deep values lie within this one.
  int Depth() const;

 private:
  struct StringData {
    std::string text;
    bool is_safe = false;
  };
  struct ListData {
    List items;
    int depth = 1;
    bool is_tuple = false;
  };
  struct DictData {
    Dict entries;
    int depth = 1;
  };
  using StringPtr = std::shared_ptr<const StringData>;
  using ListPtr = std::shared_ptr<const ListData>;
  using DictPtr = std::shared_ptr<const DictData>;
  using CallablePtr = std::shared_ptr<const Callable>;
  using LoopPtr = std::shared_ptr<const Loop>;
  using Data = std::variant<Undefined, None, bool, int64_t, double, StringPtr, ListPtr, DictPtr,
                            CallablePtr, LoopPtr, Namespace*>;

  explicit Value(Data data) : data_(std::move(data)) {}
  static Value MakeList(List items, bool is_tuple);

  Data data_;
};

// The variables of namespace(): the one thing that a template may change. A
// namespace is owned by its rendering, not by the values that name it, so that
// a cycle of them is freed.
struct Namespace {
  std::vector<std::pair<std::string, Value>> variables;
};

// What `loop` is within a loop: one object for all its rounds.
struct Loop {
  List items;
  size_t at = 0;
  int depth = 1;  // Of the value; Value::Of sets it.
};

struct Builtin;
struct Macro;
struct Scope;

// What can be called: a function or method of the language, or a macro of the
// template.
struct Callable {
  const Builtin* builtin = nullptr;
  Value self;  // Whose method it is.
  const Macro* macro = nullptr;
  Scope* scope = nullptr;  // Where the macro stands.
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_VALUE_H_
