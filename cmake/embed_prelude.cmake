# Writes the Relay sources of the prelude as C arrays.
#   cmake -DOUT=stdlib_prelude.c "-DFILES=a.rly;b.rly" -P embed_prelude.cmake
# The files keep the order of their names; stdlib/prelude.h says what the result looks like.

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
    string(APPEND rows "    {\"${name}\", (const char *)file_${index}, ${size}},\n")
    math(EXPR index "${index} + 1")
endforeach()

set(text "/* Made by cmake/embed_prelude.cmake from stdlib/prelude. */\n")
string(APPEND text "#include \"stdlib/prelude.h\"\n\n${arrays}")
string(APPEND text "const PreludeFile prelude_files[] = {\n${rows}    {0},\n};\n")
file(WRITE ${OUT} "${text}")
