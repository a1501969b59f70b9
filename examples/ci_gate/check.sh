#!/usr/bin/env bash
# Scores the answers of two versions of a pipeline to the same questions, and compares them.
# Exit status: 0 if the candidate is no worse, 1 if it is, 2 for wrong usage. If it is, its worst answers are in the
# folder REGRESSIONS, before them those that people called bad in the file LABELS, as `ragweir labels` writes it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

scores=$(mktemp -d)
trap 'rm -r "$scores"' EXIT

ragweir score "${1:-baseline.jsonl}" --out "$scores/baseline.jsonl"
ragweir score "${2:-candidate.jsonl}" --out "$scores/candidate.jsonl"
if ! ragweir compare "$scores/baseline.jsonl" "$scores/candidate.jsonl" \
    --fail-on "context_support -0.05" \
    --fail-on "unsupported_risk 0.05"; then
    ragweir dataset "$scores/candidate.jsonl" --events "${2:-candidate.jsonl}" ${LABELS:+--labels "$LABELS"} \
        --worst 5 --out "${REGRESSIONS:-regressions}"
    exit 1
fi
