/* The plug-in's table. */
#include "exchange/import.h"

#include "exchange/onnx_export.h"
#include "exchange/onnx_import.h"

static const ExchangeTable table = {
    .onnx = onnx_import,
    .to_onnx = onnx_export,
};

const ExchangeTable *relay_exchange_table(void)
{
    return &table;
}
