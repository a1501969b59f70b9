#!/bin/sh
# Writes deploy/.env, the secrets of compose.yaml, with a new routing key; existing values are kept. Takes another folder
# as its argument.
set -eu
umask 077
file="${1:-$(dirname "$0")}/.env"
if ! grep -qs '^RAGWEIR_ROUTING__KEY=.' "$file"; then
    printf '\nRAGWEIR_ROUTING__KEY=%s\n' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >> "$file"
    echo "$file has a new key of the routing."
fi
chmod 600 "$file"
