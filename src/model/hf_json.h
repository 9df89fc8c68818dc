// The JSON files of a folder in Hugging Face's format, field by field.
#ifndef ROPEWAY_MODEL_HF_JSON_H_
#define ROPEWAY_MODEL_HF_JSON_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/failures.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Reads FOLDER/NAME and parses it. kDataLoss, naming the file, for a file that is not valid JSON,
// or larger than `max_bytes`; kNotFound if there is none.
StatusOr<nlohmann::json> ReadHfFile(const std::string& folder, std::string_view name,
                                    size_t max_bytes, const base::JsonBounds& bounds);

// What messages call a field: config.json "hidden_size".
std::string HfField(std::string_view file, std::string_view key);

// Reads the fields of one JSON object. Failures are kept, one of each field, and reading goes on: a
// number that could not be read is 0. null is the same as an absent field.
class HfFields {
 public:
  // `path`: of the folder; `file`: its file, as messages call it. `object` must outlive this.
  HfFields(std::string_view path, std::string_view file, const nlohmann::json& object);

  const Failures& failures() const { return failures_; }
  bool ok() const { return failures_.ok(); }
  const std::string& path() const { return path_; }
  std::string Field(std::string_view key) const { return HfField(file_, key); }

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Whether the field is there, and null.
  bool IsNull(std::string_view key) const;
  // The first of the keys that there is; the first where there is none.
  std::string_view Name(std::initializer_list<std::string_view> keys) const;

  // The field's value; `absent` where there is none, or a failure if that is nullopt.
  uint32_t Uint(std::string_view key, std::optional<uint32_t> absent = {});
  double Number(std::string_view key, std::optional<double> absent = {});  // Finite.
  bool Bool(std::string_view key, bool absent);
  std::string Text(std::string_view key, const std::optional<std::string>& absent = {});
  std::vector<std::string> Texts(std::string_view key);  // Empty where absent.
  std::vector<float> Numbers(std::string_view key);      // Likewise.
  // An object; null where absent.
  const nlohmann::json* Object(std::string_view key);

  // Records a failure that concerns the key, unless there is one of it already.
  void Fail(StatusCode code, std::string_view key, const std::string& what);
  // Likewise those of other fields.
  void Keep(const Failures& failures) { failures_.Add(failures); }

 private:
  const nlohmann::json* Find(std::string_view key) const;
  void Mismatch(std::string_view key, const char* expected);
  void Missing(std::string_view key) { Fail(StatusCode::kDataLoss, key, "the field is missing"); }

  const std::string path_;
  const std::string file_;
  const nlohmann::json& object_;
  Failures failures_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_JSON_H_
