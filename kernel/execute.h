/* Running cells: execute_request. */
#ifndef KERNEL_EXECUTE_H
#define KERNEL_EXECUTE_H

#include "kernel/internal.h"

/* Runs the cell of the request, publishes what it gives, and returns the content of the reply. */
json_t *execute_cell(Channel *c);

#endif
