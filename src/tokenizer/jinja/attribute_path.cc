#include "tokenizer/jinja/attribute_path.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/operators.h"

namespace ropeway::jinja {

Value AtPath(const Value& item, const Value& path, Context& context) {
  if (path.is_integral()) return ItemOf(item, path, context);
  Value value = item;
  std::string_view left = StringOf("an attribute", path);
  while (true) {
    const std::string_view part = left.substr(0, left.find('.'));
    context.Step();
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc() && end == part.data() + part.size() && index >= 0;
    value = ItemOf(value, is_index ? Value::Of(index) : context.Copy(part), context);
    if (part.size() == left.size()) return value;
    left.remove_prefix(part.size() + 1);
  }
}

}  // namespace ropeway::jinja
