# Writes an option of the linker for each of LLVM's functions that the library OF mentions: the linker
# takes them out of LLVM's archives although nothing beside them calls them.
execute_process(COMMAND ${NM} -u ${OF} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "LLVM[A-Za-z0-9_]+" names "${text}")
list(REMOVE_DUPLICATES names)
list(SORT names)
list(TRANSFORM names PREPEND "-Wl,-u,")
list(JOIN names "\n" options)
file(CONFIGURE OUTPUT ${OUT} CONTENT "${options}\n")
