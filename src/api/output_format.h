// The fields that ask for a form of the answer's text, as OpenAI, vLLM and llama.cpp's server have
// them.
#ifndef ROPEWAY_API_OUTPUT_FORMAT_H_
#define ROPEWAY_API_OUTPUT_FORMAT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/openai_format.h"
#include "core/parameters.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// response_format, json_schema, structured_outputs, guided_json, guided_choice, guided_regex. They
// set Request::format; two of them that ask for a form are an error. guided_grammar and grammar are
// rejected. The schema is not read here: the engine does that.
FieldReaders<OpenAiBody> OutputFormatReaders();

// The `format` of a body's field `text`: {"type": "text"}, {"type": "json_object"} or {"type":
// "json_schema", "name", "schema"}.
Status ReadTextFormat(const nlohmann::json& value, OpenAiBody* body);

// The JSON Schema that stands at `path` in the body: a form of the answer.
Status ReadSchema(const nlohmann::json& value, const std::vector<std::string_view>& path,
                  OpenAiBody* body);

// Ollama's `format`: "json", a schema, or "" for any text.
Status ReadPlainFormat(const nlohmann::json& value, const std::string& field, OpenAiBody* body);

namespace wire {

// Adds what asks a server of this kind for the form. kUnimplemented if the kind has no way to.
Status WriteOutputFormat(const OutputFormat& format, core::ServerKind kind,
                         nlohmann::ordered_json* body);

}  // namespace wire

}  // namespace ropeway::api

#endif  // ROPEWAY_API_OUTPUT_FORMAT_H_
