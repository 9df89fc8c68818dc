#include "cli/gateway_backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "base/words.h"
#include "executor/devices.h"
#include "gateway/replicas.h"
#include "net/base_url.h"

namespace ropeway::cli {
namespace {

constexpr std::string_view kLocalPrefix = "local:";
constexpr size_t kMaxNameLength = 128;
constexpr double kLeastWeight = 0.01;
constexpr double kMostWeight = 100;
constexpr int kMostConcurrency = 100'000;

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// What a field's value may be is checked by these; they return the end of a sentence that begins
// with the field's name, "" where nothing is wrong.
std::string SetKind(const std::string& value, BackendFlag* backend) {
  const std::optional<api::BackendKind> kind = api::BackendKindOf(value);
  if (!kind) return fmt::format("must be openai, llamacpp, ollama or ropeway, not '{}'", value);
  backend->kind = *kind;
  return "";
}

std::string SetText(const std::string& value, std::string* target) {
  if (value.empty() || value.size() > kMaxNameLength || !IsVisible(value)) {
    return fmt::format("must be 1 to {} visible ASCII characters", kMaxNameLength);
  }
  *target = value;
  return "";
}

std::string SetModel(const std::string& value, BackendFlag* backend) {
  return SetText(value, &backend->model);
}

std::string SetUpstream(const std::string& value, BackendFlag* backend) {
  return SetText(value, &backend->upstream_model);
}

std::string SetName(const std::string& value, BackendFlag* backend) {
  return SetText(value, &backend->name);
}

std::string SetWeight(const std::string& value, BackendFlag* backend) {
  const double weight = base::ParseNumber<double>(value).value_or(0);
  // The negation rejects NaN.
  if (!(weight >= kLeastWeight && weight <= kMostWeight)) {
    return fmt::format("must be a number, {:g} to {:g}, not '{}'", kLeastWeight, kMostWeight,
                       value);
  }
  backend->weight = weight;
  return "";
}

std::string SetCount(const std::string& value, int* target) {
  const int count = base::ParseNumber<int>(value).value_or(0);
  if (count < 1 || count > kMostConcurrency) {
    return fmt::format("must be a whole number, 1 to {}, not '{}'", kMostConcurrency, value);
  }
  *target = count;
  return "";
}

std::string SetMost(const std::string& value, BackendFlag* backend) {
  return SetCount(value, &backend->max_concurrency);
}

std::string SetLeast(const std::string& value, BackendFlag* backend) {
  return SetCount(value, &backend->min_concurrency);
}

std::string SetKeyVariable(const std::string& value, BackendFlag* backend) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  // Not shown: it may be the key itself.
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_word)) {
    return "must be the name of an environment variable";
  }
  backend->key_variable = value;
  return "";
}

std::string SetInsecure(const std::string& value, BackendFlag* backend) {
  if (value != "true" && value != "false") {
    return fmt::format("must be true or false, not '{}'", value);
  }
  backend->insecure = value == "true";
  return "";
}

std::string AddAlias(const std::string& value, BackendFlag* backend) {
  std::string alias;
  if (std::string fault = SetText(value, &alias); !fault.empty()) return fault;
  if (std::ranges::find(backend->aliases, alias) != backend->aliases.end()) {
    return fmt::format("'{}' is given twice", alias);
  }
  backend->aliases.push_back(std::move(alias));
  return "";
}

std::string SetDevice(const std::string& value, BackendFlag* backend) {
  backend->device = value;
  return executor::DeviceNameFault(value);
}

struct BackendField {
  std::string_view key;
  std::string (*set)(const std::string& value, BackendFlag* backend);
};

constexpr std::string_view kAliasKey = "alias";  // The only one that may have several values.

constexpr std::array kFields = {
    BackendField{"kind", SetKind},
    BackendField{"model", SetModel},
    BackendField{kAliasKey, AddAlias},
    BackendField{"upstream", SetUpstream},
    BackendField{"name", SetName},
    BackendField{"weight", SetWeight},
    BackendField{"max-concurrency", SetMost},
    BackendField{"min-concurrency", SetLeast},
    BackendField{"key-env", SetKeyVariable},
    BackendField{"insecure", SetInsecure},
    BackendField{"device", SetDevice},
};

std::string FieldNames() {
  std::vector<std::string_view> names;
  for (const BackendField& field : kFields) names.push_back(field.key);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Sets one "key=value". Returns what is wrong as a sentence, "" where nothing is.
std::string SetField(const std::string& text, std::set<std::string>* given, BackendFlag* backend) {
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const auto* const field = std::find_if(kFields.begin(), kFields.end(),
                                         [&](const BackendField& one) { return one.key == key; });
  if (field == kFields.end() || equals == std::string::npos) {
    return fmt::format("expected key=value with one of the keys {}, not '{}'", FieldNames(), key);
  }
  if (key != kAliasKey && !given->insert(key).second) {
    return fmt::format("'{}' is given twice", key);
  }
  const std::string fault = field->set(text.substr(equals + 1), backend);
  return fault.empty() ? "" : fmt::format("{} {}", key, fault);
}

// What cannot stand together; a sentence, "" where nothing is wrong.
std::string TogetherFault(const BackendFlag& backend, const std::set<std::string>& given) {
  if (backend.max_concurrency > 0 && backend.min_concurrency > backend.max_concurrency) {
    return fmt::format("min-concurrency must be at most {} (max-concurrency), not {}",
                       backend.max_concurrency, backend.min_concurrency);
  }
  if (backend.local) {
    for (const char* const key : {"kind", "key-env", "insecure", "upstream"}) {
      if (given.count(key) > 0)
        return fmt::format("'{}' is only for URLs, not for local:MODEL", key);
    }
    return "";
  }
  if (given.count("device") > 0) return "'device' is only for local:MODEL";
  if (backend.insecure && !backend.where.starts_with("https://")) {
    return "'insecure' is only for https";
  }
  return "";
}

// The texts between commas.
std::vector<std::string> Parts(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Where the backend is: its URL, or a model of this process.
Status SetWhere(const std::string& where, BackendFlag* backend) {
  if (where.starts_with(kLocalPrefix)) {
    backend->local = true;
    backend->where = where.substr(kLocalPrefix.size());
    if (!backend->where.empty()) return {};
    return InvalidArgument("'local:' without a model: expected local:MODEL");
  }
  // What may hold a password or a key is not shown.
  if (where.find_first_of("@?#") != std::string::npos) {
    return InvalidArgument(
        "the URL must not have a user name, a query or a fragment; give a key with "
        "key-env=VARIABLE");
  }
  const StatusOr<net::BaseUrl> url = net::ParseBaseUrl(base::PrintableText(where), "a backend");
  if (!url.ok()) return InvalidArgument(url.status().message());
  backend->where = where;
  return {};
}

// How it is called where it has no name: host and port, or the model.
std::string DefaultName(const BackendFlag& backend) {
  if (backend.local) {
    // Engines of one model on several devices are its replicas.
    return fmt::format("{}{}{}{}", kLocalPrefix, backend.where, backend.device.empty() ? "" : "/",
                       backend.device);
  }
  const StatusOr<net::BaseUrl> url = net::ParseBaseUrl(backend.where);
  return url.ok() ? url->Authority() : backend.where;
}

void NameBackends(std::vector<BackendFlag>* backends) {
  std::map<std::string, int> uses;
  for (const BackendFlag& backend : *backends) {
    if (backend.name.empty()) ++uses[DefaultName(backend)];
  }
  for (BackendFlag& backend : *backends) {
    if (!backend.name.empty()) continue;
    backend.name = DefaultName(backend);
    // A server of several models.
    if (uses[backend.name] > 1 && !backend.model.empty()) backend.name += "/" + backend.model;
  }
}

// Every name that clients may use means one model.
Status CheckModels(const std::vector<BackendFlag>& backends) {
  std::map<std::string, std::string> model_of;  // By name.
  std::map<std::string, size_t> replicas;
  for (const BackendFlag& backend : backends) {
    model_of.emplace(backend.model, backend.model);
    if (++replicas[backend.model] <= gateway::kMaxReplicas) continue;
    return InvalidArgument(fmt::format("--backend: the model '{}' has more than {} backends",
                                       backend.model, gateway::kMaxReplicas));
  }
  for (const BackendFlag& backend : backends) {
    for (const std::string& alias : backend.aliases) {
      const auto [entry, is_new] = model_of.emplace(alias, backend.model);
      if (is_new || (entry->second == backend.model && alias != backend.model)) continue;
      return InvalidArgument(
          fmt::format("--backend: the alias '{}' of '{}' is already a name of the model '{}'",
                      alias, backend.name, entry->second));
    }
  }
  if (model_of.count("default") == 0) return {};
  return InvalidArgument(
      "--backend: a model or alias must not be called 'default', which means the first model");
}

}  // namespace

StatusOr<BackendFlag> ParseBackend(const std::string& text) {
  const std::vector<std::string> parts = Parts(text);
  BackendFlag backend;
  if (Status status = SetWhere(parts.front(), &backend); !status.ok()) return status;
  std::set<std::string> given;
  std::string fault;
  for (size_t i = 1; i < parts.size() && fault.empty(); ++i) {
    fault = SetField(parts[i], &given, &backend);
  }
  if (fault.empty()) fault = TogetherFault(backend, given);
  if (fault.empty()) return backend;
  return InvalidArgument(base::PrintableText(fmt::format("'{}': {}", parts.front(), fault)));
}

flags::FlagValue BackendsValue(std::vector<BackendFlag>* target) {
  flags::FlagValue value;
  value.placeholder = "URL[,KEY=VALUE]...";
  value.repeated = true;
  value.set = [target](const std::vector<std::string>& texts) {
    std::vector<BackendFlag> backends;
    for (const std::string& text : texts) {
      StatusOr<BackendFlag> backend = ParseBackend(text);
      if (!backend.ok()) return backend.status();
      backends.push_back(*std::move(backend));
    }
    *target = std::move(backends);
    return Status();
  };
  return value.Table("url");
}

Status ResolveBackends(std::vector<BackendFlag>* backends) {
  if (backends->empty()) {
    return InvalidArgument(
        "--backend is required: the URL of an engine's server, such as http://127.0.0.1:8081, or "
        "local:MODEL");
  }
  NameBackends(backends);
  std::set<std::string> names;
  for (const BackendFlag& backend : *backends) {
    if (names.insert(backend.name).second) continue;
    return InvalidArgument(fmt::format(
        "--backend: the name '{}' is given twice: give one of the two another name with name=NAME",
        backend.name));
  }
  return CheckModels(*backends);
}

StatusOr<std::string> BackendKey(const BackendFlag& backend) {
  if (backend.key_variable.empty()) return std::string();
  const char* const key = std::getenv(backend.key_variable.c_str());
  if (key == nullptr || *key == '\0') {
    return InvalidArgument(
        fmt::format("--backend: the environment variable {} with the key of '{}' is not set",
                    backend.key_variable, backend.name));
  }
  if (!IsVisible(key)) {
    return InvalidArgument(
        fmt::format("--backend: the key of '{}' in the environment variable {} must have only "
                    "visible ASCII characters, without spaces",
                    backend.name, backend.key_variable));
  }
  return std::string(key);
}

}  // namespace ropeway::cli
