# Writes the files of kernel/assets as C arrays.
#   cmake -DOUT=kernel_assets.c "-DFILES=a.svg;b.png" -P embed_assets.cmake
# kernel/assets.h says what the result looks like.

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
    string(APPEND rows "    {\"${name}\", file_${index}, ${size}},\n")
    math(EXPR index "${index} + 1")
endforeach()

set(text "/* Made by cmake/embed_assets.cmake from kernel/assets. */\n")
string(APPEND text "#include \"kernel/assets.h\"\n\n${arrays}")
string(APPEND text "const Asset kernel_assets[] = {\n${rows}    {0},\n};\n")
file(WRITE ${OUT} "${text}")
