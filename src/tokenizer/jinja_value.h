// The values that a template computes with: Python's, as far as templates need them.
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

using List = std::vector<Value>;
// In order of insertion. Templates' dictionaries are small.
using Dict = std::vector<std::pair<std::string, Value>>;

// What a name or an item stands for that is not there. Printed it is nothing; to use it otherwise
// is an error that names it.
struct Undefined {
  std::string name;
};
struct None {};

// Cheap to copy: strings, lists and dictionaries are shared and never change. Throws
// std::length_error where lists would lie within each other more than kMaxDepth deep.
class Value {
 public:
  static constexpr int kMaxDepth = 100;

  Value() : data_(None{}) {}
  static Value Missing(std::string name) { return Value(Data(Undefined{std::move(name)})); }
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(std::string value);
  static Value Of(List items);
  static Value Of(Dict entries);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_string() const { return std::holds_alternative<StringPtr>(data_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(data_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }

  // A number, or a bool, which is 0 or 1 as in Python.
  bool is_number() const { return is_integer() || is_bool(); }
  // REQUIRES: is_number().
  int64_t number() const;
  // REQUIRES: is_string(), is_list(), is_dict(), is_undefined(). Valid as long as a copy of *this.
  const std::string& string() const { return *std::get<StringPtr>(data_); }
  const List& list() const { return std::get<ListPtr>(data_)->items; }
  const Dict& dict() const { return std::get<DictPtr>(data_)->entries; }
  const std::string& missing_name() const { return std::get<Undefined>(data_).name; }

  // As Python's bool().
  bool Truth() const;
  // As Python's ==.
  bool operator==(const Value& other) const;
  // The entry of a dictionary; nullptr if there is none. REQUIRES: is_dict().
  const Value* Find(std::string_view key) const;
  // "a string", "a list", ...: for messages.
  const char* TypeName() const;

 private:
  struct ListData {
    List items;
    int depth = 1;
  };
  struct DictData {
    Dict entries;
    int depth = 1;
  };
  using StringPtr = std::shared_ptr<const std::string>;
  using ListPtr = std::shared_ptr<const ListData>;
  using DictPtr = std::shared_ptr<const DictData>;
  using Data = std::variant<Undefined, None, bool, int64_t, StringPtr, ListPtr, DictPtr>;

  explicit Value(Data data) : data_(std::move(data)) {}
  int Depth() const;
  static void CheckDepth(int depth);

  Data data_;
};

// The characters of `text` (UTF-8; bytes that are not stand alone).
std::vector<std::string_view> Characters(std::string_view text);

// Python's str.lstrip() and str.rstrip(): without Unicode's white space at that end.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_VALUE_H_
