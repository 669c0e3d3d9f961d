# To be sourced: serves a lab for a check and ends it with the check.
#
#   lab_up ARGUMENTS…   starts `talosmith lab up` on ports that the system chooses, and sets URL, TOKEN, PASSWORD and WORK
#
# The program is the one of the last `cargo build`; TALOSMITH names another.

source "$(dirname "${BASH_SOURCE[0]}")/end.sh"
WORK=$(mktemp -d)
LAB_PID=
lab_end() {
  end_process "$LAB_PID"
  rm -rf "$WORK"
}
trap lab_end EXIT

lab_up() {
  local program=${TALOSMITH:-target/debug/talosmith}
  [[ -x $program ]] || cargo build -q --workspace
  "$program" lab up --json --proxmox 127.0.0.1:0 --factory 127.0.0.1:0 "$@" >"$WORK/up.json" 2>"$WORK/up.err" &
  LAB_PID=$!
  for _ in $(seq 150); do
    [[ -s $WORK/up.json ]] && break
    kill -0 "$LAB_PID" 2>/dev/null || break
    sleep 0.1
  done
  if [[ ! -s $WORK/up.json ]]; then
    cat "$WORK/up.err" >&2
    echo "the lab did not start" >&2
    return 1
  fi
  field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$WORK/up.json"; }
  URL=$(field proxmox) TOKEN=$(field root_token) PASSWORD=$(field root_password) FACTORY=$(field factory)
}
