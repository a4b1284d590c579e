#!/bin/sh
# Stands for `sync MOUNT` in a sandbox: returns when what was written there is committed.
asked="$QG_REHEARSAL_HOME/asked/$$"
echo "$1" > "$asked"
left=1500
while [ -e "$asked" ]; do
  left=$((left - 1))
  [ $left -gt 0 ] || { echo "sync: $1: Input/output error" >&2; exit 1; }
  sleep 0.02
done
