# Writes a source with one mark made of the headers FILES into OUT: two builds whose structures or functions differ have different marks.
set(hashes "")
foreach(file IN LISTS FILES)
    file(SHA256 ${file} hash)
    string(APPEND hashes "${hash}")
endforeach()
string(SHA256 mark "${hashes}")
file(WRITE ${OUT} "#include \"base/plugin.h\"\n\nconst char relay_plugin_mark[] = \"${mark}\";\n")
