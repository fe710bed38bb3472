# shellcheck shell=bash
# What the scripts share: sourced, not run.

# shellcheck disable=SC2034  # used where this file is sourced
lockstep_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s\n' "$@"; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Prints the comment at the head of the running script, and exits.
usage() {
  sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//;p}' "$0"
  exit 0
}

# 83 -> 1:23
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Tells every few seconds how long process $1 has been at work, and the last line of its log $2.
report_progress() {
  local pid=$1 log=$2 from=$SECONDS next=$((SECONDS + 5)) line
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS >= next)); then
      line=$(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-70 || true)
      line=${line:-...}
      if [[ -t 1 ]]; then
        printf '\r\033[K    %s  %s' "$(clock $((SECONDS - from)))" "$line"
      else
        printf '    %s  %s\n' "$(clock $((SECONDS - from)))" "$line"
      fi
      next=$((SECONDS + $([[ -t 1 ]] && echo 1 || echo 15)))
    fi
    sleep 0.2
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

# run_logged LOG COMMAND...: runs the command with its output in LOG, with progress; the command's
# exit status. On failure the end of the log is shown. An interrupt ends the command, too.
run_logged() {
  local log=$1 pid status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  report_progress "$pid" "$log"
  wait "$pid" || status=$?
  if ((status != 0)); then
    say "    failed with status $status; the end of $log:"
    tail -n 40 "$log" | sed 's/^/    | /'
  fi
  return "$status"
}
