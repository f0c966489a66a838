# What may include what, checked over the sources: cmake -DROOT=... -P cmake/folders.cmake
#
# RULE rows: files (glob, first match wins) | folders and headers their quoted includes may name.
# SYSTEM rows: third-party header (regular expression) | folders that may include it.
set(RULES
    "frontend/cli/*|frontend/cli/ frontend/yoloc.h runtime/yolort.h sign/yolosign.h ir/utf8.h"
    "frontend/driver*|ir/ frontend/ passes/ codegen/ runtime/module.h runtime/yolort.h"
    "frontend/*|ir/ frontend/"
    "ir/*|ir/"
    "passes/*|ir/ passes/"
    "codegen/tune*|ir/ codegen/ runtime/yolort.h"
    "codegen/trial*|ir/ codegen/ runtime/yolort.h"
    "codegen/*|ir/ codegen/ runtime/module.h runtime/packing_body.h"
    "runtime/*|runtime/"
    "sign/*|sign/"
    "bench/*|runtime/yolort.h"
    "docs/*|yolort.h yoloc.h yolosign.h")
set(SYSTEM
    "^llvm|codegen/"
    "^yaml\\.h|frontend/"
    "^sqlite3|codegen/ frontend/"
    "^jansson|frontend/"
    "^(png|jpeglib)|frontend/cli/"
    "^sodium|sign/")
set(FAULTS "")

function(may_include path allowed out)
    foreach(a IN LISTS allowed)
        string(FIND "${path}" "${a}" at)
        if((a MATCHES "/$" AND at EQUAL 0) OR path STREQUAL a)
            set(${out} TRUE PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${out} FALSE PARENT_SCOPE)
endfunction()

function(allowed_of file out)
    foreach(rule IN LISTS RULES)
        string(REGEX MATCH "^([^|]*)\\|(.*)$" _ "${rule}")
        string(REPLACE "*" ".*" pattern "${CMAKE_MATCH_1}")
        set(allowed "${CMAKE_MATCH_2}")
        if(file MATCHES "^${pattern}$")
            string(REPLACE " " ";" allowed "${allowed}")
            set(${out} "${allowed}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${out} "" PARENT_SCOPE)
endfunction()

function(check_quoted file line)
    string(REGEX MATCH "\"([^\"]+)\"" _ "${line}")
    set(name "${CMAKE_MATCH_1}")
    cmake_path(GET file PARENT_PATH folder)
    if(EXISTS "${ROOT}/${folder}/${name}" AND NOT name MATCHES "/")
        set(name "${folder}/${name}")
    endif()
    allowed_of("${file}" allowed)
    may_include("${name}" "${allowed}" ok)
    if(NOT ok)
        set(FAULTS "${FAULTS}\n${file}: may not include \"${name}\"" PARENT_SCOPE)
    endif()
endfunction()

function(check_system file line)
    string(REGEX MATCH "<([^>]+)>" _ "${line}")
    set(name "${CMAKE_MATCH_1}")
    foreach(rule IN LISTS SYSTEM)
        string(REGEX MATCH "^(.*)\\|([^|]*)$" _ "${rule}")
        set(pattern "${CMAKE_MATCH_1}")
        string(REPLACE " " ";" folders "${CMAKE_MATCH_2}")
        if(name MATCHES "${pattern}")
            may_include("${file}" "${folders}" ok)
            if(NOT ok)
                set(FAULTS "${FAULTS}\n${file}: may not include <${name}>" PARENT_SCOPE)
            endif()
        endif()
    endforeach()
endfunction()

file(GLOB SOURCES RELATIVE ${ROOT} ${ROOT}/ir/*.[ch] ${ROOT}/frontend/*.[ch] ${ROOT}/frontend/cli/*.[ch]
    ${ROOT}/passes/*.[ch] ${ROOT}/codegen/*.[ch] ${ROOT}/runtime/*.[ch] ${ROOT}/sign/*.[ch] ${ROOT}/docs/*.[ch]
    ${ROOT}/bench/*.[ch])
list(LENGTH SOURCES count)
foreach(file IN LISTS SOURCES)
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include")
    foreach(line IN LISTS includes)
        if(line MATCHES "include[ \t]*\"")
            check_quoted("${file}" "${line}")
        else()
            check_system("${file}" "${line}")
        endif()
    endforeach()
endforeach()

# Public headers: only the two headers that every C compiler has, and short.
foreach(file runtime/yolort.h frontend/yoloc.h sign/yolosign.h)
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include")
    list(FILTER includes EXCLUDE REGEX "<(stddef|stdint)\\.h>")
    if(includes)
        string(APPEND FAULTS "\n${file}: a public header includes only <stddef.h> and <stdint.h>")
    endif()
    file(READ ${ROOT}/${file} text)
    string(REGEX REPLACE "[^\n]" "" newlines "${text}")
    string(LENGTH "${newlines}" lines)
    if(lines GREATER_EQUAL 500)
        string(APPEND FAULTS "\n${file}: ${lines} lines; a public header has less than 500")
    endif()
endforeach()

# Nothing that is shipped knows a machine's folders.
file(GLOB_RECURSE SHIPPED RELATIVE ${ROOT} ${ROOT}/ir/* ${ROOT}/frontend/* ${ROOT}/passes/* ${ROOT}/codegen/*
    ${ROOT}/runtime/* ${ROOT}/sign/* ${ROOT}/docs/* ${ROOT}/bench/* ${ROOT}/man/* ${ROOT}/tools/* ${ROOT}/cmake/*.in ${ROOT}/models/*.yaml)
list(APPEND SHIPPED CMakeLists.txt README.md CONTRIBUTING.md SECURITY.md)
foreach(file IN LISTS SHIPPED)
    if(EXISTS ${ROOT}/${file})
        file(STRINGS ${ROOT}/${file} found REGEX "(/work/|/root/|/tmp/|\"/work)")
        if(found)
            string(APPEND FAULTS "\n${file}: names a folder of one machine: ${found}")
        endif()
    endif()
endforeach()

if(FAULTS)
    message(FATAL_ERROR "folder rules:${FAULTS}")
endif()
message("folder rules: ${count} files")
