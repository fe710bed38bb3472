# shellcheck shell=bash disable=SC2154
# Python programs of the Python index, by hash: sourced, after common.sh.

# python_env NAME REQUIREMENTS: prints a folder whose bin/ has them. Made once for each state of the
# file of requirements, in build/tools/NAME; each package only as one of the files that it names by hash.
python_env() {
  local folder=$lockstep_root/build/tools/$1 requirements=$2
  if ! cmp -s "$requirements" "$folder/made-with"; then
    python3 -m venv --clear "$folder" >&2
    PIP_DISABLE_PIP_VERSION_CHECK=1 run_logged "$folder/install.log" "$folder/bin/pip" install \
      --progress-bar off --require-hashes --only-binary :all: --requirement "$requirements" >&2
    cp "$requirements" "$folder/made-with"
  fi
  echo "$folder"
}
