// The names by which clients and backends know a gateway's models.
#ifndef ROPEWAY_GATEWAY_MODEL_NAMES_H_
#define ROPEWAY_GATEWAY_MODEL_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "service/front_desk.h"

namespace ropeway::gateway {

// A model has the name and the aliases that it is given. One of them may be without a name: it has
// those that all of its replicas report, and before any has, each that no other has.
//
// Thread rule: Report from one thread at a time, the rest from any.
class ModelNames {
 public:
  struct Model {
    std::string name;  // "": those that its replicas report.
    std::vector<std::string> aliases;
    size_t replicas = 0;
  };

  // kInvalidArgument: a name is there twice, or is "default"; or there is no model.
  static Status Check(const std::vector<Model>& models);
  // REQUIRES: Check(models) is OK.
  explicit ModelNames(std::vector<Model> models);

  // The index of the model with this name; nothing: there is none.
  std::optional<size_t> Find(const std::string& name) const;
  // The name by which its backends know the model that was asked for as `asked`; "": they have not
  // said yet.
  std::string ForBackends(size_t model, const std::string& asked) const;
  // All of them, with when they were made.
  std::vector<service::ModelInfo> List(int64_t created) const;

  // The replica reports these names, and whether what they name makes embeddings alone.
  void Report(size_t model, size_t replica, std::vector<std::string> names, bool embeds_only);
  // The name of the model, or else the first one that the replica has reported; "": it has not.
  std::string OfReplica(size_t model, size_t replica) const;

 private:
  using Names = std::vector<std::string>;
  struct Reported {
    std::vector<Names> by_replica;
    std::vector<std::optional<bool>> embeds_only;  // By the replica; empty: it has not said.
    std::shared_ptr<const Names> common = std::make_shared<const Names>();  // Never null.
  };

  std::shared_ptr<const Names> CommonOf(size_t model) const;
  // Whether all replicas that have reported make embeddings alone.
  bool EmbedsOnly(size_t model) const;

  const std::vector<Model> models_;
  std::map<std::string, size_t> given_;  // Names and aliases; constant.
  mutable std::mutex mu_;
  std::vector<Reported> reported_;  // Of each model; names of one without a name. GUARDED_BY(mu_)
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_MODEL_NAMES_H_
