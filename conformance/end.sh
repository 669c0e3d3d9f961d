# To be sourced: end_process PID ends a process that this shell started and waits until it is gone, because a lab writes its state
# to its folder until then. One that does not end within 20 s is killed. Without a PID nothing is done.
end_process() {
  [[ -n ${1:-} ]] || return 0
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 200); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
