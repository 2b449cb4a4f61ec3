/* The plug-in's table. */
#include "exchange/import.h"

#include "exchange/onnx_export.h"
#include "exchange/onnx_import.h"

static void release(Imported *out)
{
    for (size_t i = 0; i < out->arrays.n; i++)
        tensor_release(out->arrays.at[i].value);
    buf_deinit(&out->text);
    arena_deinit(&out->arena);
}

static const ExchangeTable table = {
    .version = EXCHANGE_TABLE_VERSION,
    .onnx = onnx_import,
    .release = release,
    .to_onnx = onnx_export,
};

const ExchangeTable *relay_exchange_table(void)
{
    return &table;
}
