// What is wrong with a request, as a value.
#ifndef ROPEWAY_HTTP_HTTP_ERROR_H_
#define ROPEWAY_HTTP_HTTP_ERROR_H_

#include <string>

namespace ropeway::http {

// The rooms above write it in the shape of an API.
struct HttpError {
  int http_status = 500;
  std::string message;
  // Words for programs, as OpenAI defines them.
  std::string type;
  std::string param;  // The field at fault; "": none.
  std::string code;   // "": none.
  // The answer's x-request-id, for shapes that show it; "": it is not known.
  std::string request_id = {};
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_ERROR_H_
