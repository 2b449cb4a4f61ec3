/* What the stages of import and export share. */
#ifndef SESSION_EXCHANGE_H
#define SESSION_EXCHANGE_H

#include "exchange/import.h"
#include "session/commands.h"

/* The plug-in; NULL after a diagnostic. */
const ExchangeTable *session_exchange(RelaySession *s);

#endif
