# shellcheck shell=bash disable=SC2154
# Which Go to build with: sourced, after common.sh.

# Whatever the user's own settings: these versions, and nothing fetched but what go.sum knows. Without
# paths in what is built, one folder finds in the build cache what another has built.
export GOTOOLCHAIN=local GOFLAGS='-mod=readonly -trimpath' GOWORK=off

# go_program MODULE: prints the Go to build the module in that folder with. The one on the PATH if it is
# new enough; Debian 12's is not: it gets one, into build/go.
go_program() {
  local needed found
  needed=$(sed -n 's/^go //p' "$1/go.mod")
  found=$(go env GOVERSION 2>/dev/null || true)
  if [[ $found == go* && $(printf '%s\n' "$needed" "${found#go}" | sort -V | head -n 1) == "$needed" ]]; then
    command -v go
    return
  fi
  if [[ -z $found ]]; then "$lockstep_root/scripts/deps" go >&2; fi
  "$lockstep_root/scripts/lib/fetch_go.py" "$(command -v go)" "$lockstep_root/build/go/toolchain"
}
