#include "gateway/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/request_check.h"
#include "gateway/reported_facts.h"

namespace ropeway::gateway {

Status ModelNames::Check(const std::vector<Model>& models) {
  if (models.empty()) return InvalidArgument("a gateway needs at least one model", "models");
  std::set<std::string> all;
  for (const Model& model : models) {
    Names names = model.aliases;
    names.push_back(model.name);
    for (const std::string& name : names) {
      if (name == "default") {
        return InvalidArgument(
            "no model may be called \"default\": that name stands for the first model", "name");
      }
      if (all.insert(name).second) continue;
      if (name.empty()) return InvalidArgument("only one model may have no name", "name");
      return InvalidArgument(fmt::format("two models are called \"{}\"", name), "name");
    }
  }
  return {};
}

ModelNames::ModelNames(std::vector<Model> models)
    : models_(std::move(models)), reported_(models_.size()) {
  for (size_t i = 0; i < models_.size(); ++i) {
    if (!models_[i].name.empty()) given_.emplace(models_[i].name, i);
    for (const std::string& alias : models_[i].aliases) given_.emplace(alias, i);
    reported_[i].by_replica.resize(models_[i].replicas);
    reported_[i].embeds_only.resize(models_[i].replicas);
  }
}

std::shared_ptr<const ModelNames::Names> ModelNames::CommonOf(size_t model) const {
  const std::lock_guard lock(mu_);
  return reported_[model].common;
}

bool ModelNames::EmbedsOnly(size_t model) const {
  const std::lock_guard lock(mu_);
  bool any = false;
  for (const std::optional<bool>& one : reported_[model].embeds_only) {
    if (one && !*one) return false;
    any = any || one.has_value();
  }
  return any;
}

std::optional<size_t> ModelNames::Find(const std::string& name) const {
  if (core::IsDefaultModel(name)) return 0;
  if (const auto found = given_.find(name); found != given_.end()) return found->second;
  for (size_t i = 0; i < models_.size(); ++i) {
    if (!models_[i].name.empty()) continue;
    const auto names = CommonOf(i);
    // Before any of its backends has said what it serves, it may be this.
    if (names->empty() || std::find(names->begin(), names->end(), name) != names->end()) return i;
  }
  return std::nullopt;
}

std::string ModelNames::ForBackends(size_t model, const std::string& asked) const {
  if (!models_[model].name.empty()) return models_[model].name;
  if (!core::IsDefaultModel(asked)) return asked;
  const auto names = CommonOf(model);
  return names->empty() ? std::string() : names->front();
}

std::vector<service::ModelInfo> ModelNames::List(int64_t created) const {
  std::vector<service::ModelInfo> all;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    const bool embeds_only = EmbedsOnly(i);
    const auto add = [&](const std::string& name) {
      service::ModelInfo& info = all.emplace_back();
      info.id = name;
      info.created = created;
      info.chats = !embeds_only;
      info.embeds_only = embeds_only;
    };
    if (!model.name.empty()) {
      add(model.name);
      all.back().aliases = model.aliases;
      continue;
    }
    const auto names = CommonOf(i);
    for (const std::string& name : *names) {
      // What another model is called is that.
      if (!given_.contains(name)) add(name);
    }
    if (names->empty()) add("default");
    for (const std::string& alias : model.aliases) add(alias);
  }
  return all;
}

void ModelNames::Report(size_t model, size_t replica, Names names, bool embeds_only) {
  Reported& its = reported_[model];
  {
    const std::lock_guard lock(mu_);
    its.embeds_only[replica] = embeds_only;
    if (!models_[model].name.empty()) return;
    its.by_replica[replica].swap(names);
  }
  // Without the lock: it takes longer the more they report, and no other thread changes the lists.
  std::vector<const Names*> lists;
  lists.reserve(its.by_replica.size());
  for (const Names& each : its.by_replica) lists.push_back(&each);
  auto common = std::make_shared<const Names>(CommonNames(lists));
  const std::lock_guard lock(mu_);
  its.common.swap(common);
}

std::string ModelNames::OfReplica(size_t model, size_t replica) const {
  if (!models_[model].name.empty()) return models_[model].name;
  const std::lock_guard lock(mu_);
  const Names& names = reported_[model].by_replica[replica];
  return names.empty() ? std::string() : names.front();
}

}  // namespace ropeway::gateway
