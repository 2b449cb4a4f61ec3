" Relay. Made from the token table of relay.
if exists('b:current_syntax')
  finish
endif

syntax case match
syntax iskeyword @,48-57,_,/,.
syntax match relayOperator "->\|=>\|<=\|>=\|==\|!=\|=\|<\|>\|+\|-\|\*\|/\|!"
highlight default link relayOperator Operator
syntax match relay_constructor +\<[A-Z][A-Za-z_0-9/]*+
highlight default link relay_constructor Structure
syntax keyword relay_type Tensor bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16
highlight default link relay_type Type
syntax keyword relay_constant False True
highlight default link relay_constant Boolean
syntax keyword relay_keyword def else extern fn free_var if let match ref ref_read ref_write type import
highlight default link relay_keyword Keyword
syntax match relay_partial +\<match?+
highlight default link relay_partial Keyword
syntax match relay_number +\<\%(\%(inf\|nan\)f\%(16\|32\|64\)\=\>\|[0-9][0-9.]*\%([eE][-+]\=[0-9]\+\)\=\%([fi]\%(16\|32\|64\)\=\)\=\)+
highlight default link relay_number Number
syntax match relay_function +@[A-Za-z_][A-Za-z_0-9/]*+
highlight default link relay_function Function
syntax match relay_variable +%\%([A-Za-z_][A-Za-z_0-9/]*\|[0-9]\+\)+
highlight default link relay_variable Identifier
syntax match relay_string +"\%([^"\\]\|\\.\)*"\=+
highlight default link relay_string String
syntax match relay_command +^\s*:[a-z]\++
highlight default link relay_command Macro
syntax match relay_mark +#\[[^\]]*\]\=+
highlight default link relay_mark PreProc
syntax match relay_line +//.*$+
highlight default link relay_line Comment
syntax region relay_block start=+/\*+ end=+\*/+ contains=relay_block
highlight default link relay_block Comment

let b:current_syntax = 'relay'
