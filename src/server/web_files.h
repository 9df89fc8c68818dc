// The files of the page (web/ and Chart.js), which are part of the program. cmake/WebFiles.cmake
// writes the table.
#ifndef ROPEWAY_SERVER_WEB_FILES_H_
#define ROPEWAY_SERVER_WEB_FILES_H_

#include <span>
#include <string_view>

namespace ropeway::server {

struct WebFile {
  std::string_view name;  // As in "/web/NAME".
  std::string_view content_type;
  std::string_view etag;  // With its quotes; from the bytes.
  std::string_view bytes;
};

std::span<const WebFile> WebFiles();

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_WEB_FILES_H_
