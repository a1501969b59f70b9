#!/bin/sh
# Makes deploy/.env, which compose.yaml takes its secrets from, with a new key of the routing; what it already has stays.
# Another folder may be given.
set -eu
umask 077
file="${1:-$(dirname "$0")}/.env"
if ! grep -qs '^RAGWEIR_ROUTING__KEY=.' "$file"; then
    printf '\nRAGWEIR_ROUTING__KEY=%s\n' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >> "$file"
    echo "$file has a new key of the routing."
fi
chmod 600 "$file"
