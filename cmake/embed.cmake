# Writes files as C arrays and a table of them, so that the program carries them.
#   cmake -DOUT=x.c -DHEADER=stdlib/prelude.h -DTYPE=PreludeFile -DTABLE=prelude_files \
#         "-DFILES=a.rly;b.rly" -P embed.cmake
# HEADER declares TYPE, whose fields are a name, the bytes and their number, and TABLE, whose last
# row is empty. The rows keep the order of FILES; behind the bytes of each stands a NUL.

set(arrays "")
set(rows "")
set(index 0)
foreach(file IN LISTS FILES)
    file(READ ${file} hex HEX)
    get_filename_component(name ${file} NAME)
    string(LENGTH "${hex}" digits)
    math(EXPR size "${digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n    " hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char file_${index}[] = {\n    ${bytes}0};\n\n")
    string(APPEND rows "    {\"${name}\", (const void *)file_${index}, ${size}},\n")
    math(EXPR index "${index} + 1")
endforeach()

set(text "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n\n${arrays}")
string(APPEND text "const ${TYPE} ${TABLE}[] = {\n${rows}    {0},\n};\n")
file(WRITE ${OUT} "${text}")
