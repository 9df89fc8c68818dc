// Status and StatusOr: the results of calls that can fail. Exceptions never cross a seam or a
// thread, so every fallible function of the public API returns one of these.
//
// Thread rule: plain values; distinct objects may be used from distinct threads.
#ifndef ROPEWAY_STATUS_H_
#define ROPEWAY_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace ropeway {

// The kind of failure; HTTP maps each to one status code (src/server).
enum class StatusCode {
  kOk,
  kInvalidArgument,    // The caller's input is wrong: names the field and what was expected. (400)
  kNotFound,           // No such model, request or file. (404)
  kResourceExhausted,  // A queue or a bound is full; trying again later may succeed. (429)
  kUnavailable,        // Stopping or stopped: no new work is accepted. (503)
  kDeadlineExceeded,   // The given time was up.
  kCancelled,          // The caller, or the caller's client, cancelled.
  kDataLoss,           // A file is truncated or corrupt.
  kUnimplemented,      // Understood but not supported; the message names what.
  kInternal,           // A bug in Ropeway.
};

// Success, or an error code with one sentence for people.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string field = "")
      : code_(code), message_(std::move(message)), field_(std::move(field)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // The request field, flag or file field at fault; empty if there is none.
  const std::string& field() const { return field_; }
  // What an API calls the error more closely, such as "context_length_exceeded"; "": nothing. Such
  // names are constants.
  const char* api_code() const { return api_code_; }
  void set_api_code(const char* code) { api_code_ = code; }
  // Of kResourceExhausted, and of what is busy: seconds after which trying again may succeed; 0:
  // that is not known.
  int retry_after_seconds() const { return retry_after_seconds_; }
  void set_retry_after_seconds(int seconds) { retry_after_seconds_ = seconds; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string field_;
  int retry_after_seconds_ = 0;
  const char* api_code_ = "";
};

inline Status InvalidArgument(std::string message, std::string field = "") {
  return {StatusCode::kInvalidArgument, std::move(message), std::move(field)};
}

// A T, or the Status of the failure.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // REQUIRES: !status.ok().
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ropeway

#endif  // ROPEWAY_STATUS_H_
