#!/bin/sh
# Numba only uses a cache that it may write to, and the root is read-only: start from a copy of the image's own.
# What was compiled for another processor is not used, and compiled again into the copy.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -R /opt/livesvm/compiled/. "$NUMBA_CACHE_DIR"
exec "$@"
