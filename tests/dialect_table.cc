// dialect_table: the fields of every dialect of the API and what becomes of them, for
// fields_test.py. Writes one JSON object: {path: {field: what}}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/dialects.h"
#include "api/fields.h"

namespace {

namespace api = ropeway::api;

struct DialectColumn {
  const char* path;
  uint32_t dialect;
  api::ApiFormatMaker make;
};

// Each maker of api/dialects.h, with the bit of its rows.
constexpr DialectColumn kColumns[] = {
    {"/v1/completions", api::kCompletions, api::MakeOpenAiCompletions},
    {"/v1/chat/completions", api::kChat, api::MakeOpenAiChat},
    {"/v1/responses", api::kResponses, api::MakeOpenAiResponses},
    {"/completion", api::kLlamaCpp, api::MakeLlamaCppCompletion},
    {"/v1/messages", api::kAnthropic, api::MakeAnthropicMessages},
    {"/v1/messages/count_tokens", api::kAnthropic, api::MakeAnthropicCount},
    {"/api/chat", api::kOllamaChat, api::MakeOllamaChat},
    {"/api/generate", api::kOllamaGenerate, api::MakeOllamaGenerate},
    {"/v1/embeddings", api::kEmbeddings, api::MakeOpenAiEmbeddings},
    {"/api/embed", api::kOllamaEmbed, api::MakeOllamaEmbed},
    {"/api/embeddings", api::kOllamaOldEmbeddings, api::MakeOllamaOldEmbeddings},
    {"/embedding", api::kLlamaEmbedding, api::MakeLlamaEmbedding},
};

std::string FateOf(const api::FieldRow& row) {
  const std::string instead = row.instead;
  // It depends on other fields: ollama_request.cc.
  if (row.name == std::string_view("options.repeat_last_n")) return "only `-1` with a penalty";
  switch (row.kind) {
    case api::FieldKind::kNoEffect:
      return "no effect";
    case api::FieldKind::kNoEffectWith:
      if (!instead.empty()) return "use `" + instead + "`";
      return "only `" + std::string(row.values) + "`";
    case api::FieldKind::kUnsupported:
      return instead.empty() ? "rejected" : "use `" + instead + "`";
  }
  return "";
}

}  // namespace

int main() {
  nlohmann::ordered_json all;
  for (const DialectColumn& column : kColumns) {
    nlohmann::ordered_json& fields = all[column.path];
    for (const std::string& name : column.make()->Fields()) fields[name] = "used";
    for (const api::FieldRow& row : api::FieldRows()) {
      if ((row.dialects & column.dialect) == 0) continue;
      if (fields.contains(row.name)) {
        std::cerr << "A row and a reader of " << column.path << ": " << row.name << "\n";
        return 1;
      }
      fields[row.name] = FateOf(row);
    }
  }
  std::cout << all.dump() << "\n";
  return 0;
}
