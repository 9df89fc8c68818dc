// The body of POST /v1/responses.
#ifndef ROPEWAY_API_RESPONSES_REQUEST_H_
#define ROPEWAY_API_RESPONSES_REQUEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/openai_format.h"
#include "api/responses_items.h"
#include "ropeway/status.h"

namespace ropeway::api {

struct ResponsesBody : OpenAiBody {
  ResponsesBody() {
    tool_form = ToolForm::kFlat;
    keeping.stores_unasked = true;
  }

  bool has_input = false;
  std::vector<InputItem> items;  // The body's own input.
  std::string instructions;      // "": none.
  // What the answer repeats of the body: JSON members of the response, each behind a comma.
  std::string echo;

  // The values of some of these members, as JSON text; "": the field is absent.
  std::string text_json;
  std::string tool_choice_json;
  std::string metadata_json;
  std::string reasoning_summary_json;
};

// All bodies that the readers of this table are given are ResponsesBodies.
const FieldTable<OpenAiBody>& ResponsesFields();

// Reads a body.
Status ReadResponsesBody(std::string_view text, const BodyLimits& limits, ResponsesBody* body);

// Puts items of earlier inputs and answers before the body's own. Call after ReadResponsesBody, and
// before the prompt is moved out. Of the body's own items those lose their ids that another one
// has.
Status ContinueItems(const std::vector<std::string>& history, ResponsesBody* body);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_RESPONSES_REQUEST_H_
