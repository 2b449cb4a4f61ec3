/* What the stages of import and export share. */
#ifndef SESSION_EXCHANGE_H
#define SESSION_EXCHANGE_H

#include "exchange/import.h"
#include "session/commands.h"

/* The plug-in; NULL after a diagnostic. */
const ExchangeTable *session_exchange(RelaySession *s);

/* saved.c: whether the file is a graph of the original, and the same as ExchangeTable.onnx of such a file. */
bool saved_graph_is(const char *path);
bool saved_graph_import(RelaySession *s, const ImportWish *wish, Imported *out);

#endif
