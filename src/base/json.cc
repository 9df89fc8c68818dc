#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace ropeway::base {
namespace {

using nlohmann::json;

// The library's description of a syntax error, without its prefix and bounded, as it quotes the
// input.
std::string SyntaxDetail(const char* what) {
  std::string_view text = what;
  for (std::string_view mark : {"] ", ": "}) {
    size_t at = text.find(mark);
    if (at != std::string_view::npos) text.remove_prefix(at + mark.size());
  }
  constexpr size_t kMost = 120;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

// Builds a document from parse events. The library's parser keeps its own stack on the heap, one
// bit a level, so events are all that nesting costs until `max_depth` stops it.
template <typename Json>
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  using typename nlohmann::json_sax<Json>::number_integer_t;
  using typename nlohmann::json_sax<Json>::number_unsigned_t;
  using typename nlohmann::json_sax<Json>::number_float_t;
  using typename nlohmann::json_sax<Json>::string_t;
  using typename nlohmann::json_sax<Json>::binary_t;

  JsonBuilder(const JsonBounds& bounds, std::string_view what) : bounds_(bounds), what_(what) {}

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override { return Put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail("Binary values are not JSON"); }

  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    Json* const known = FindKey(name);
    if (known != nullptr && !bounds_.repeated_keys) {
      return Fail("The key '" + name.substr(0, 64) + "' is given twice in one object");
    }
    key_slot_ = known != nullptr ? known : AddKey(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail(fmt::format("{} is not valid JSON at byte {}: {}", what_, position,
                            SyntaxDetail(error.what())));
  }

  Json TakeRoot() { return std::move(root_); }
  const std::string& failure() const { return failure_; }

 private:
  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  bool Count() {
    if (++values_ <= bounds_.max_values) return true;
    return Fail(fmt::format("{} holds more than {} JSON values", what_, bounds_.max_values));
  }

  Json* Put(Json value) {
    if (!Count()) return nullptr;
    Json* slot = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      slot = &open_.back()->back();
    } else if (!open_.empty()) {
      slot = key_slot_;
    }
    *slot = std::move(value);
    return slot;
  }

  // Addresses in open_ stay valid: a container grows only while it is the innermost one.
  bool Open(Json container) {
    if (static_cast<int>(open_.size()) >= bounds_.max_depth) {
      return Fail(fmt::format("{} is nested deeper than {} levels", what_, bounds_.max_depth));
    }
    Json* slot = Put(std::move(container));
    if (slot == nullptr) return false;
    open_.push_back(slot);
    if constexpr (kOrdered) keys_.emplace_back();
    return true;
  }

  bool Close() {
    open_.pop_back();
    if constexpr (kOrdered) keys_.pop_back();
    return true;
  }

  // An ordered object would compare each key with all others.
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;

  Json* FindKey(const string_t& name) {
    if constexpr (kOrdered) {
      const auto found = keys_.back().find(name);
      if (found == keys_.back().end()) return nullptr;
      auto& members = open_.back()->template get_ref<typename Json::object_t&>();
      return &(members.begin() + static_cast<std::ptrdiff_t>(found->second))->second;
    } else {
      const auto found = open_.back()->find(name);
      return found == open_.back()->end() ? nullptr : &*found;
    }
  }

  Json* AddKey(const string_t& name) {
    if constexpr (kOrdered) {
      auto& members = open_.back()->template get_ref<typename Json::object_t&>();
      keys_.back().emplace(name, members.size());
      members.push_back({name, nullptr});
      return &members.back().second;
    } else {
      return &(*open_.back())[name];
    }
  }

  const JsonBounds bounds_;
  const std::string_view what_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::unordered_map<string_t, size_t>> keys_;  // Of open containers, if kOrdered.
  Json* key_slot_ = nullptr;                                // Where the value of the last key goes.
  size_t values_ = 0;
  std::string failure_;
};

// Hands the events of one member on to a builder.
class MemberReader final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  MemberReader(const std::vector<std::string_view>& path, const JsonBounds& bounds,
               std::string_view what)
      : path_(path), builder_(bounds, what) {}

  bool null() override {
    return Value([&] { return builder_.null(); });
  }
  bool boolean(bool value) override {
    return Value([&] { return builder_.boolean(value); });
  }
  bool number_integer(number_integer_t value) override {
    return Value([&] { return builder_.number_integer(value); });
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Value([&] { return builder_.number_unsigned(value); });
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return Value([&] { return builder_.number_float(value, text); });
  }
  bool string(string_t& value) override {
    return Value([&] { return builder_.string(value); });
  }
  bool binary(binary_t& value) override { return builder_.binary(value); }

  bool start_object(std::size_t size) override {
    return Open(true, [&] { return builder_.start_object(size); });
  }
  bool start_array(std::size_t size) override {
    return Open(false, [&] { return builder_.start_array(size); });
  }
  bool end_object() override {
    return Close([&] { return builder_.end_object(); });
  }
  bool end_array() override {
    return Close([&] { return builder_.end_array(); });
  }
  bool key(string_t& name) override {
    if (inside_ > 0) return builder_.key(name);
    next_ = depth_ == matched_ + 1 && matched_ < path_.size() && name == path_[matched_];
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    return builder_.parse_error(position, token, error);
  }

  bool found() const { return found_; }
  JsonBuilder<nlohmann::ordered_json>& builder() { return builder_; }

 private:
  // Whether the value that comes is the member. Its key was the last one that was read.
  bool IsMember() {
    const bool is = next_ && matched_ + 1 == path_.size();
    found_ = found_ || is;
    return is;
  }
  template <typename Fn>
  bool Value(Fn&& give) {
    const bool is = inside_ > 0 || IsMember();
    next_ = false;
    return !is || give();
  }
  template <typename Fn>
  bool Open(bool object, Fn&& give) {
    if (inside_ > 0 || IsMember()) {
      next_ = false;
      ++inside_;
      return give();
    }
    if (next_ && object) ++matched_;
    next_ = false;
    ++depth_;
    return true;
  }
  template <typename Fn>
  bool Close(Fn&& give) {
    if (inside_ > 0) {
      --inside_;
      return give();
    }
    if (depth_ == matched_ + 1 && matched_ > 0) --matched_;
    --depth_;
    return true;
  }

  const std::vector<std::string_view>& path_;
  JsonBuilder<nlohmann::ordered_json> builder_;
  size_t depth_ = 0;    // Containers that are open, outside of the member.
  size_t matched_ = 0;  // The first so many keys of the path lead to the innermost of them.
  size_t inside_ = 0;   // Containers that are open in the member.
  bool next_ = false;   // The last key is the next one of the path.
  bool found_ = false;
};

// The library takes a NUL byte for the end of its input, and would ignore what follows.
Status CheckNoNul(std::string_view text, std::string_view what) {
  const size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return {};
  return InvalidArgument(fmt::format("{} is not valid JSON at byte {}: a NUL byte", what, nul + 1));
}

template <typename Json>
StatusOr<Json> Read(std::string_view text, const JsonBounds& bounds, std::string_view what) {
  if (Status status = CheckNoNul(text, what); !status.ok()) return status;
  JsonBuilder<Json> builder(bounds, what);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(ReplaceInvalidUtf8(builder.failure()));
  }
  return builder.TakeRoot();
}

}  // namespace

StatusOr<json> ReadJson(std::string_view text, const JsonBounds& bounds, std::string_view what) {
  return Read<json>(text, bounds, what);
}

StatusOr<nlohmann::ordered_json> ReadOrderedJson(std::string_view text, const JsonBounds& bounds,
                                                 std::string_view what) {
  return Read<nlohmann::ordered_json>(text, bounds, what);
}

StatusOr<nlohmann::ordered_json> ReadOrderedMember(std::string_view text,
                                                   const std::vector<std::string_view>& path,
                                                   const JsonBounds& bounds,
                                                   std::string_view what) {
  if (Status status = CheckNoNul(text, what); !status.ok()) return status;
  MemberReader reader(path, bounds, what);
  if (!nlohmann::ordered_json::sax_parse(text.begin(), text.end(), &reader)) {
    return InvalidArgument(ReplaceInvalidUtf8(reader.builder().failure()));
  }
  if (!reader.found()) return InvalidArgument(fmt::format("{} is missing", what));
  return reader.builder().TakeRoot();
}

bool IsJsonObject(std::string_view text, const JsonBounds& bounds) {
  const StatusOr<json> read = ReadJson(text, bounds, "the text");
  return read.ok() && read->is_object();
}

std::string QuoteJson(std::string_view text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

const json& Member(const json& json, const char* key) {
  static const nlohmann::json* const none = new nlohmann::json;
  if (!json.is_object()) return *none;
  const auto found = json.find(key);
  return found == json.end() ? *none : *found;
}

std::string_view Text(const json& json) {
  const auto* text = json.get_ptr<const std::string*>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

}  // namespace ropeway::base
