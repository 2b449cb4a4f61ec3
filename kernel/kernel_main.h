/* The Jupyter kernel, as the command line starts it.
 *
 * Both functions are entries of the kernel plug-in (base/plugin.h). They return an exit code: 0,
 * or 2 (RELAY_USAGE) with one line on standard error. */
#ifndef KERNEL_KERNEL_MAIN_H
#define KERNEL_KERNEL_MAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { KERNEL_PORTS = 5 };

/* A port at which somebody listens for the kernel already; the socket becomes the kernel's. */
typedef struct EarlyPort {
    int port, fd;
} EarlyPort;

typedef struct KernelOptions {
    const char *connection_file; /* NULL: makes one and prints its name */
    bool sandbox; /* opens no file and no socket once it serves (base/sandbox.h) */
    EarlyPort early[KERNEL_PORTS];
    size_t n_early;
} KernelOptions;

/* Serves the connection until it is told to end. A cell that does not end within a second of a shutdown ends with the process. */
int relay_kernel_run(const KernelOptions *options);

/* `relay kernel install`: writes the kernel's description, and Relay's colours for JupyterLab,
 * where Jupyter looks for them. The arguments are those behind `install`. */
int relay_kernel_install(int argc, char **argv);

#endif
