/* An ONNX graph as a Relay program: names, parameters, lines, and what is computed at once. */
#ifndef EXCHANGE_ONNX_IMPORT_H
#define EXCHANGE_ONNX_IMPORT_H

#include "exchange/import.h"

/* ExchangeTable.onnx. */
bool onnx_import(Ctx *cx, Interp *in, const ImportWish *wish, Imported *out);

#endif
