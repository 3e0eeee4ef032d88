#!/usr/bin/env bash
source ./store.sh

LIMIT=1000

# Add an entry.
add() {
  local amount="$1"
  clamp "$amount" >> "$LEDGER"
}

function clamp {
  if (( $1 > LIMIT )); then
    echo "$LIMIT"
  else
    echo "$1"
  fi
}

main() {
  open_store "$1"
  add "$2"
  grep -c . "$LEDGER"
}

main "$@"
