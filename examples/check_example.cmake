# cmake -DMAKE_MODEL=... -DEXAMPLE=... -DMODEL=... -P check_example.cmake
# Runs the example on the tiny model and checks what it prints.
execute_process(COMMAND ${MAKE_MODEL} ${MODEL} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${EXAMPLE} ${MODEL} alpha beta gamma OUTPUT_VARIABLE out ENCODING NONE
                COMMAND_ERROR_IS_FATAL ANY)
foreach(pattern "streamed: [^\n]" "\\[0\\] alpha ->" "\\[1\\] beta ->" "\\[2\\] gamma ->"
                "\\((length|stop), [0-9]+ prompt tokens, [1-9][0-9]* generated\\)")
  if(NOT out MATCHES "${pattern}")
    message(FATAL_ERROR "the example printed nothing like \"${pattern}\":\n${out}")
  endif()
endforeach()
# What was streamed is what its twin in the batch gave.
string(REGEX MATCH "streamed: (.*)\n\\[0\\] alpha ->(.*)\n    \\(.*\n\\[1\\]" all "${out}")
if(NOT CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_2 OR CMAKE_MATCH_1 STREQUAL "")
  message(FATAL_ERROR "streamed \"${CMAKE_MATCH_1}\", collected \"${CMAKE_MATCH_2}\"")
endif()

execute_process(COMMAND ${EXAMPLE} ${MODEL}.missing RESULT_VARIABLE code ERROR_VARIABLE err
                OUTPUT_QUIET)
if(NOT code EQUAL 1 OR NOT err MATCHES "missing")
  message(FATAL_ERROR "a missing model: exit code ${code}, \"${err}\"")
endif()
