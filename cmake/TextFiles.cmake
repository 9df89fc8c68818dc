# ropeway_text_files(TARGET HEADER NAMESPACE NAME=PATH...): makes text files part of TARGET, each as
# `extern const char NAME[]` of the namespace, which HEADER declares.
#
# As a script (cmake -P, with OUT, HEADER, NAMESPACE and FILES, joined by |) it writes their source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(entry ${FILES})
    string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
    set(name "${CMAKE_MATCH_1}")
    file(READ "${CMAKE_MATCH_2}" hex HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
    string(APPEND arrays "const char ${name}[] = {${bytes}0};\n")
  endforeach()
  file(WRITE "${OUT}" "// Written by cmake/TextFiles.cmake.\n#include \"${HEADER}\"\n\n"
    "namespace ${NAMESPACE} {\n\n${arrays}\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(ROPEWAY_TEXT_FILES_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(ropeway_text_files TARGET HEADER NAMESPACE)
  set(paths ${ARGN})
  list(TRANSFORM paths REPLACE "^[^=]+=" "")
  string(JOIN "|" files ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/text_files.cc)
  add_custom_command(OUTPUT ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DHEADER=${HEADER}" "-DNAMESPACE=${NAMESPACE}" "-DFILES=${files}"
            -P ${ROPEWAY_TEXT_FILES_SCRIPT}
    DEPENDS ${paths} ${ROPEWAY_TEXT_FILES_SCRIPT})
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${TARGET} PRIVATE ${out})
endfunction()
