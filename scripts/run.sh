#!/bin/sh
# Starts the REPL; without a terminal it runs the tour.
cd "$(dirname "$0")/.." || exit 2
if [ -t 0 ]; then
    exec build/release/relay
fi
exec build/release/relay examples/tour.rly
