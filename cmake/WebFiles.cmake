# ropeway_web_files(TARGET): makes the files of the page part of TARGET, as src/server/web_files.h
# has them: all of web/, and Chart.js as chart.js.
#
# As a script (cmake -P, with OUT and FILES, a list of "NAME=PATH" joined by |) it writes their table.
if(CMAKE_SCRIPT_MODE_FILE)
  set(type_html "text/html; charset=utf-8")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  set(type_svg "image/svg+xml")
  set(type_png "image/png")
  set(arrays "")
  set(rows "")
  set(number 0)
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(entry ${FILES})
    string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
    set(name "${CMAKE_MATCH_1}")
    set(path "${CMAKE_MATCH_2}")
    string(REGEX REPLACE "^.*\\." "" ending "${name}")
    if(NOT DEFINED type_${ending})
      message(FATAL_ERROR "${path}: WebFiles.cmake knows no content type for .${ending}")
    endif()
    file(SHA256 "${path}" sum)
    string(SUBSTRING "${sum}" 0 16 sum)
    file(READ "${path}" hex HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
    # One byte more: no array is empty.
    string(APPEND arrays "constexpr char kFile${number}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", \"${type_${ending}}\", \"\\\"${sum}\\\"\",\n"
                       "     {kFile${number}, sizeof(kFile${number}) - 1}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(WRITE "${OUT}" "// Written by cmake/WebFiles.cmake.\n#include \"server/web_files.h\"\n\n"
    "namespace ropeway::server {\nnamespace {\n\n${arrays}\n"
    "constexpr WebFile kFiles[] = {\n${rows}};\n\n}  // namespace\n\n"
    "std::span<const WebFile> WebFiles() { return kFiles; }\n\n}  // namespace ropeway::server\n")
  return()
endif()

set(ROPEWAY_WEB_FILES_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(ropeway_web_files TARGET)
  find_file(ROPEWAY_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH REQUIRED
            DOC "Chart.js 3.9, of Debian's package libjs-chart.js")
  file(GLOB paths CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*)
  set(files "chart.js=${ROPEWAY_CHART_JS}")
  foreach(path ${paths})
    get_filename_component(name ${path} NAME)
    string(APPEND files "|${name}=${path}")
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/web_files.cc)
  add_custom_command(OUTPUT ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DFILES=${files}" -P ${ROPEWAY_WEB_FILES_SCRIPT}
    DEPENDS ${paths} ${ROPEWAY_CHART_JS} ${ROPEWAY_WEB_FILES_SCRIPT})
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${TARGET} PRIVATE ${out})
endfunction()
