# Finds the libraries that the build needs. Each one missing ends the configuration with the
# package to install; scripts/packages.txt is the whole list.

function(relay_missing what package)
    message(FATAL_ERROR
        "${what} was not found. On Debian or Ubuntu install it with\n"
        "    apt-get install ${package}\n"
        "or run scripts/setup.sh, which installs everything that is missing.")
endfunction()

# A C library that is one header and one file to link with, as target relay::NAME.
function(relay_find_library name header library package)
    find_path(RELAY_${name}_INCLUDE ${header} PATH_SUFFIXES ${ARGN})
    find_library(RELAY_${name}_LIBRARY ${library})
    mark_as_advanced(RELAY_${name}_INCLUDE RELAY_${name}_LIBRARY)
    if(NOT RELAY_${name}_INCLUDE OR NOT RELAY_${name}_LIBRARY)
        relay_missing("${header} (${library})" ${package})
    endif()
    add_library(relay::${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(relay::${name} INTERFACE ${RELAY_${name}_INCLUDE})
    target_link_libraries(relay::${name} INTERFACE ${RELAY_${name}_LIBRARY})
endfunction()

# The header of a C library that is opened when it is first used, as target relay::NAME.
function(relay_find_header name header library package)
    find_path(RELAY_${name}_INCLUDE ${header} PATH_SUFFIXES ${ARGN})
    mark_as_advanced(RELAY_${name}_INCLUDE)
    if(NOT RELAY_${name}_INCLUDE)
        relay_missing("${header} (${library})" ${package})
    endif()
    add_library(relay::${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(relay::${name} INTERFACE ${RELAY_${name}_INCLUDE})
endfunction()

relay_find_library(zmq zmq.h zmq libzmq3-dev)
relay_find_library(jansson jansson.h jansson libjansson-dev)
relay_find_library(protobuf_c protobuf-c/protobuf-c.h protobuf-c libprotobuf-c-dev)

# When the history is first asked or added to.
relay_find_header(sqlite3 sqlite3.h SQLite libsqlite3-dev)

# The messages of an ONNX file, made from the schema that the system's ONNX library carries.
find_path(RELAY_onnx_SCHEMA onnx.proto PATH_SUFFIXES onnx)
find_program(RELAY_PROTOC_C protoc-c)
mark_as_advanced(RELAY_onnx_SCHEMA RELAY_PROTOC_C)
if(NOT RELAY_onnx_SCHEMA)
    relay_missing("onnx.proto" libonnx-dev)
endif()
if(NOT RELAY_PROTOC_C)
    relay_missing("protoc-c" protobuf-c-compiler)
endif()

# When an archive is first read.
relay_find_header(zip zip.h libzip libzip-dev)

# After its core type has been set in the environment.
relay_find_header(cblas cblas.h OpenBLAS libopenblas-dev
    ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE} openblas)

find_package(Threads REQUIRED)

function(relay_llvm_config out)
    execute_process(COMMAND ${RELAY_LLVM_CONFIG} ${ARGN}
        OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_QUIET)
    if(NOT status EQUAL 0)
        set(text "")
    endif()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

if(RELAY_LLVM)
    find_program(RELAY_LLVM_CONFIG NAMES llvm-config-19 llvm-config19)
    mark_as_advanced(RELAY_LLVM_CONFIG)
    if(NOT RELAY_LLVM_CONFIG)
        relay_missing("LLVM 19 (llvm-config-19)" "llvm-19-dev (or configure with -DRELAY_LLVM=OFF)")
    endif()
    relay_llvm_config(RELAY_LLVM_INCLUDE --includedir)
    relay_llvm_config(RELAY_LLVM_LIBDIR --libdir)
    relay_llvm_config(RELAY_LLVM_VERSION --version)
    if(NOT EXISTS ${RELAY_LLVM_INCLUDE}/llvm-c/Core.h)
        relay_missing("llvm-c/Core.h (LLVM 19)" "llvm-19-dev")
    endif()

    # LLVM's own archives open in a quarter of the time of the shared library, but take seconds to
    # link: release builds use them, builds for development the shared one.
    set(RELAY_LLVM_LINK "auto" CACHE STRING "How the JIT gets LLVM: auto, static or shared")
    set_property(CACHE RELAY_LLVM_LINK PROPERTY STRINGS auto static shared)
    set(link ${RELAY_LLVM_LINK})
    if(link STREQUAL "auto")
        set(link shared)
        if(CMAKE_BUILD_TYPE MATCHES "Rel" AND NOT RELAY_SANITIZE
           AND EXISTS ${RELAY_LLVM_LIBDIR}/libLLVMCodeGen.a)
            set(link static)
        endif()
    endif()
    add_library(relay::llvm_headers INTERFACE IMPORTED GLOBAL)
    target_include_directories(relay::llvm_headers SYSTEM INTERFACE ${RELAY_LLVM_INCLUDE})
    add_library(relay::llvm INTERFACE IMPORTED GLOBAL)
    if(link STREQUAL "static")
        relay_llvm_config(libs --link-static --libs core native passes nvptx)
        separate_arguments(libs)
        # jit/llvm/cushion.c has what takes the place of the system's functions.
        set(wrapped "")
        foreach(name malloc calloc realloc strdup)
            string(APPEND wrapped ",--wrap=${name}")
        endforeach()
        target_link_options(relay::llvm INTERFACE -L${RELAY_LLVM_LIBDIR} -Wl,--gc-sections${wrapped})
        target_link_libraries(relay::llvm INTERFACE ${libs} stdc++ z zstd m ${CMAKE_DL_LIBS})
    else()
        target_link_libraries(relay::llvm INTERFACE
            -Wl,--no-as-needed ${RELAY_LLVM_LIBDIR}/libLLVM.so)
    endif()
    message(STATUS "LLVM ${RELAY_LLVM_VERSION}, ${link}")
endif()
