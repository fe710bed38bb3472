# shellcheck shell=bash disable=SC2154,SC2119
# One lockstepd on local clusters a and b: sourced, after common.sh, by scripts that set
#   dir                     the run's folder: clusters in $dir/clusters, data, log and port below it
#   lockstepd, lockstepctl  the programs
# `daemon` is the process that runs, if one does.
daemon=

# Waits for a child process without the shell's remark about how it ended.
await_end() { { wait "$1"; } 2>/dev/null || true; }

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
  local deadline=$((SECONDS + $1)) what=$2 told=$SECONDS
  shift 2
  until "$@"; do
    if ((SECONDS >= deadline)); then fail "waited too long for $what; see $dir"; fi
    if ((SECONDS - told >= 5)); then
      say "        ... still waiting for $what"
      told=$SECONDS
    fi
    sleep 0.1
  done
}

bootstrap() { (
  # shellcheck source=/dev/null
  source "$dir/clusters/clusters.env"
  local name=LOCKSTEP_CLUSTER_${1^^}_BOOTSTRAP
  echo "${!name}"
); }

ctl() { "$lockstepctl" --server "127.0.0.1:$(<"$dir/port")" "$@"; }

# json EXPRESSION: evaluates it over the answer `it` on standard input; prints it, or fails if false.
json() { python3 -c 'import json, sys
it = json.load(sys.stdin)
value = eval(sys.argv[1])
print(value)
sys.exit(0 if value else 1)' "$1"; }

write_config() {
  cat >"$dir/lockstepd.yaml" <<CONFIG
listen: 127.0.0.1:0
data_dir: $dir/data
clusters:
  - name: a
    bootstrap_servers: $(bootstrap a)
  - name: b
    bootstrap_servers: $(bootstrap b)
CONFIG
}

# start_lockstepd [OPTION...]: returns when it serves.
start_lockstepd() {
  rm -f "$dir/port"
  "$lockstepd" --config "$dir/lockstepd.yaml" --port-file "$dir/port" "$@" \
    >>"$dir/lockstepd.log" 2>&1 </dev/null &
  daemon=$!
  await 60 "lockstepd to serve" serving
}

await_clusters() { await 60 "lockstepd to have both clusters" ready; }

serving() {
  kill -0 "$daemon" 2>/dev/null || fail "lockstepd ended: $(tail -n 5 "$dir/lockstepd.log")"
  [[ -s $dir/port ]]
}

ready() {
  ctl --output json status 2>/dev/null |
    json 'all(c["state"] == "CLUSTER_STATE_READY" for c in it["clusters"])' >/dev/null 2>&1
}
