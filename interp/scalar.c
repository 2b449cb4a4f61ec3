/* Which operations on two scalars are steps of their own. */
#include "interp/internal.h"

typedef struct ScalarRow {
    TeOp op;
    DTypeId dtype;
    uint16_t run;
} ScalarRow;

static const ScalarRow rows[] = {
#define SCALAR(name, op, dtype, T, result) {op, dtype, RUN_##name},
#define DIVISION(name, op, dtype, T, result) {op, dtype, RUN_##name},
#define DECISION(name, op, dtype, T, result) {op, dtype, RUN_##name},
#include "interp/scalar.def"
};

uint16_t scalar_find(TeOp op, DType dtype)
{
    DTypeId id = dtype_id(dtype);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op && rows[i].dtype == id)
            return rows[i].run;
    return 0;
}
