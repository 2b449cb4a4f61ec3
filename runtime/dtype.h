/* Element types.
 *
 * A DType is DLPack's triple of code, bits and lanes; `bool` is uint1. Relay text can name more
 * of them than can be stored (int4, float16x4); those that can have a row in dtypes.def and a
 * DTypeId. */
#ifndef RUNTIME_DTYPE_H
#define RUNTIME_DTYPE_H

#include "base/buf.h"
#include "base/str.h"

typedef enum {
    DTYPE_CODE_INT = 0,
    DTYPE_CODE_UINT = 1,
    DTYPE_CODE_FLOAT = 2,
    DTYPE_CODE_BFLOAT = 4
} DTypeCode;

typedef struct DType {
    uint8_t code;           /* DTypeCode */
    uint8_t bits;           /* 0: the unset type that text writes as "" or "void" */
    uint16_t lanes;         /* 1 but for vector types */
} DType;

typedef enum DTypeId {
#define DTYPE(id, name, code, bits, ctype, numpy) DT_##id,
#include "runtime/dtypes.def"
#undef DTYPE
    DTYPE_IDS
} DTypeId;

typedef struct DTypeRow {
    const char *name;
    DType dtype;
    size_t size;            /* bytes an element */
    const char *numpy;
} DTypeRow;

const DTypeRow *dtype_row(DTypeId id);
/* The row of a type that can be stored; DTYPE_IDS for the others. */
DTypeId dtype_id(DType t);
DType dtype_of(DTypeId id);
size_t dtype_size(DType t);     /* bytes an element; 0 when it cannot be stored */

bool dtype_eq(DType a, DType b);
bool dtype_is_void(DType t);
bool dtype_is_bool(DType t);
bool dtype_is_int(DType t);     /* signed or unsigned, not bool */
bool dtype_is_signed(DType t);
bool dtype_is_float(DType t);   /* bfloat16 included */
/* The largest finite number of a type of floats. */
double dtype_largest(DType t);

/* One element in memory, converted: floats to integers towards zero and saturating, integers wrap,
 * NaN is 0. Another type than those that can be stored gives 0. */
double dtype_get_double(DType t, const void *element);
int64_t dtype_get_int(DType t, const void *element);
void dtype_set_double(DType t, void *element, double v);
void dtype_set_int(DType t, void *element, int64_t v);

/* Reads a whole name: "float32", "int" (= int32), "bool", "uint1", "float16x4", "bfloat16", "void",
 * "". False: no dtype. */
bool dtype_parse(Str name, DType *out);
void dtype_print(Buf *b, DType t);

/* The triple in a number, and back. */
static inline uint32_t dtype_pack(DType t)
{
    return (uint32_t)t.code | (uint32_t)t.bits << 8 | (uint32_t)t.lanes << 16;
}
static inline DType dtype_unpack(uint64_t word)
{
    return (DType){(uint8_t)word, (uint8_t)(word >> 8), (uint16_t)(word >> 16)};
}

#endif
