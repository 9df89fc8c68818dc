# ropeway_unity(TARGET): compiles the sources of TARGET together, so that the headers that all of
# them include are read once: a third of the time. It means that no two files of a room may define
# one name, even in unnamed namespaces.
function(ropeway_unity TARGET)
  if(ROPEWAY_UNITY)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ROPEWAY_UNITY})
  endif()
endfunction()

# ropeway_room(NAME [DEPS room...] [LIBS target...] [TEST_LIBS target...])
#
# One static library `ropeway_NAME` from the folder's *.cc (and those of arch/, cpu/, jinja/, kernels/
# and replay/), and, with ROPEWAY_TESTS, one test program `NAME_test` from its *_test.cc, each
# labelled with the room's name. Files named test_*.{h,cc} belong to the tests alone.
function(ropeway_room NAME)
  cmake_parse_arguments(R "" "" "DEPS;LIBS;TEST_LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc arch/*.cc cpu/*.cc jinja/*.cc kernels/*.cc replay/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "(_test\\.cc|/test_[^/]*\\.cc)$")
  list(FILTER sources EXCLUDE REGEX "(_test\\.cc|/test_[^/]*\\.cc|/main\\.cc)$")
  if(ROPEWAY_SANITIZE)
    # PoCL compiles code that the sanitizers do not know, and is not instrumented itself: its tests
    # stay out. These have devices of their own.
    set(of_pocl ${tests})
    list(FILTER of_pocl INCLUDE REGEX "/(gpu/|gpu_)[^/]*_test\\.cc$")
    list(FILTER of_pocl EXCLUDE REGEX "/gpu/(cuda|ops)_test\\.cc$")
    if(of_pocl)
      list(REMOVE_ITEM tests ${of_pocl})
    endif()
  endif()
  set(lib ropeway_${NAME})
  if(sources)
    add_library(${lib} STATIC ${sources})
    ropeway_unity(${lib})
    set(scope PUBLIC)
  else()
    add_library(${lib} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${lib} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  # Said to the users of the installed library too: the public headers need it.
  target_compile_features(${lib} ${scope} cxx_std_20)
  if(ROPEWAY_SANITIZE AND sources AND NAME MATCHES "^(net|http|api|server|loadgen|hub|cli|lab)$")
    # Much template code and little to compute: a third of the build's time.
    target_compile_options(${lib} PRIVATE -O0)
  endif()
  if(ROPEWAY_SANITIZE MATCHES undefined AND sources
     AND NAME MATCHES "^(net|tokenizer|policy|scheduler|store|service|engine|http|api|server|gateway|flags|loadgen|hub|cli|lab)$")
    # A third of their build's time. These rooms read no numbers from raw bytes, and AddressSanitizer
    # says as much of an access to null.
    target_compile_options(${lib} PRIVATE -fno-sanitize=null,alignment)
  endif()
  list(TRANSFORM R_DEPS PREPEND ropeway_)
  target_link_libraries(${lib} ${scope} ${R_DEPS} ${R_LIBS})
  if(ROPEWAY_TESTS AND tests)
    add_executable(${NAME}_test ${tests})
    ropeway_unity(${NAME}_test)
    target_link_libraries(${NAME}_test PRIVATE ${lib} ${R_TEST_LIBS} GTest::gmock GTest::gtest_main)
    if(NOT NAME STREQUAL kernels)
      # Half of a build's time went into optimised, checked templates of GoogleTest and JSON: the
      # tests' own files do without. (So do inline functions that both they and the code under test
      # call out of line; the simulation has them checked.) The kernels' tests compute.
      target_compile_options(${NAME}_test PRIVATE -O0)
      if(ROPEWAY_SANITIZE MATCHES undefined)
        target_compile_options(${NAME}_test PRIVATE -fno-sanitize=undefined)
      endif()
    endif()
    gtest_discover_tests(${NAME}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${NAME} TIMEOUT 300
                         # Two properties, since a list of two variables does not survive here.
                         ENVIRONMENT ROPEWAY_TEST_MODEL=${ROPEWAY_TEST_MODEL}
                         ENVIRONMENT_MODIFICATION ROPEWAY_VOCAB_DIR=set:${ROPEWAY_VOCAB_DIR})
  endif()
endfunction()
