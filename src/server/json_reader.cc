#include "server/json_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace ropeway {
namespace {

using nlohmann::json;

// The library's text for a syntax error, without its own prefix and bounded (it quotes the input).
std::string Detail(const char* what) {
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
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonBounds& bounds) : bounds_(bounds) {}

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override { return Put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail("Binary values are not JSON"); }

  bool start_object(std::size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    json& object = *open_.back();
    if (object.contains(name)) {
      return Fail("The key '" + name.substr(0, 64) + "' is given twice in one object");
    }
    slot_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail("The body is not valid JSON at byte " + std::to_string(position) + ": " +
                Detail(error.what()));
  }

  json TakeRoot() { return std::move(root_); }
  const std::string& failure() const { return failure_; }

 private:
  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  bool Count() {
    if (++values_ <= bounds_.max_values) return true;
    return Fail("The body holds more than " + std::to_string(bounds_.max_values) + " JSON values");
  }

  json* Put(json value) {
    if (!Count()) return nullptr;
    json* place = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      place = &open_.back()->back();
    } else if (!open_.empty()) {
      place = slot_;
    }
    *place = std::move(value);
    return place;
  }

  // Addresses in open_ stay valid: a container grows only while it is the innermost one.
  bool Open(json container) {
    if (static_cast<int>(open_.size()) >= bounds_.max_depth) {
      return Fail("The body is nested deeper than " + std::to_string(bounds_.max_depth) +
                  " levels");
    }
    json* place = Put(std::move(container));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonBounds bounds_;
  json root_;
  std::vector<json*> open_;
  json* slot_ = nullptr;  // Where the value of the last key goes.
  size_t values_ = 0;
  std::string failure_;
};

}  // namespace

StatusOr<json> ReadJson(std::string_view text, const JsonBounds& bounds) {
  // The library takes a NUL byte for the end of its input, and would ignore what follows.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    return InvalidArgument("The body is not valid JSON at byte " + std::to_string(nul + 1) +
                           ": a NUL byte");
  }
  Builder builder(bounds);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(ReplaceInvalidUtf8(builder.failure()));
  }
  return builder.TakeRoot();
}

}  // namespace ropeway
