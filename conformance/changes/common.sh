# To be sourced by the parts of conformance/changes/run: a served lab with a cluster, and what looks at it.
#
#   begin CLUSTER NET                serves a lab for a cluster in 10.NET.0/24 and creates it; the file's values are variables, which
#                                    `write_file` writes
#   change CODE WHAT [ARGUMENT…]     applies the file as it is now; the exit code must be CODE
#   program CODE WHAT ARGUMENT…      any other command of the program
#   says PATTERN                     what the program printed last
#   kubectl_has / talos_has / pve_has WHAT PATTERN ARGUMENT…

source conformance/end.sh
WORK=$(mktemp -d)
LAB=
finish() {
  end_process "$LAB"
  rm -rf "$WORK"
}
trap finish EXIT
# A signal ends the part through its trap.
trap 'exit 143' TERM
export XDG_CONFIG_HOME=$WORK/config KUBECONFIG=$WORK/kubeconfig TALOSCONFIG=$WORK/talosconfig HOME=$WORK
unset TALOSMITH_IDENTITY
CHECKS=0 OUT=

# The file's values. A part changes them and calls `change`.
CONTROL='count: 3' WORKERS='count: 2' WORK_POOL=work NODES='{}' REST='' CLUSTER='' NETWORK='' VIP=10 TALOS=v1.13.9

write_file() {
  cat >"$COPY" <<FILE
cluster: $CLUSTER
versions: { talos: $TALOS, kubernetes: v1.35.4 }
proxmox: { endpoint: '$URL', fingerprint: '$FINGERPRINT', token: 'file:token' }
image: { factory: '$FACTORY', ca: factory-ca.pem }
network: { cidr: $PREFIX.0/24, gateway: $PREFIX.1, vip: $PREFIX.$VIP$NETWORK }
changes: { soak: 0s }
pools:
  control: { role: controlplane, $CONTROL }
  $WORK_POOL: { role: worker, $WORKERS }
nodes: $NODES
$REST
FILE
}

begin() { # CLUSTER NET
  CLUSTER=$1 PREFIX=127.$2 URL=https://pve1:8006 FINGERPRINT='' FACTORY=https://factory.talos.dev
  cat >"$WORK/cluster.yaml" <<FILE
cluster: $CLUSTER
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.$2.0/24, gateway: 10.$2.1, vip: 10.$2.10 }
pools: { control: { role: controlplane, count: 3 }, work: { role: worker, count: 2 } }
FILE
  "$TALOSMITH" -f "$WORK/cluster.yaml" --lab-speed 20 --json lab up --proxmox "$PREFIX.200:8006" --factory "$PREFIX.200:8443" \
    >"$WORK/up.json" 2>"$WORK/up.err" &
  LAB=$!
  for _ in $(seq 200); do
    [[ -s $WORK/up.json ]] && break
    sleep 0.1
  done
  [[ -s $WORK/up.json ]] || { cat "$WORK/up.err"; echo "the lab did not start"; exit 1; }
  field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$WORK/up.json"; }
  COPY=$(field file) URL=$(field proxmox) FINGERPRINT=$(field fingerprint) FACTORY=$(field factory) TOKEN=$(field root_token)
  change 0 "a cluster is created"
  "$TALOSMITH" -q -f "$COPY" kubeconfig -o "$KUBECONFIG" 2>/dev/null
  "$TALOSMITH" -q -f "$COPY" talosconfig -o "$TALOSCONFIG" 2>/dev/null
  # Two pods behind a budget of one, which every drain must keep.
  "$KUBECTL" apply --server-side -f - >/dev/null <<'FILE'
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: default }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template: { metadata: { labels: { app: web } }, spec: { containers: [{ name: web, image: 'example/web:1' }] } }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: web, namespace: default }
spec: { minAvailable: 1, selector: { matchLabels: { app: web } } }
FILE
  "$KUBECTL" wait --for=condition=Available --timeout=60s deployment/web >/dev/null
}

fail() {
  printf 'FAILED  %s\n' "$1"
  sed 's/^/        /' <<<"$OUT" | tail -60
  exit 1
}

program() { # CODE WHAT ARGUMENT…
  local code=$1 what=$2 rc=0 began=$SECONDS
  shift 2
  OUT=$("$TALOSMITH" -q -f "$COPY" "$@" 2>&1) || rc=$?
  [[ $rc -eq $code ]] || fail "$what: exit code $rc instead of $code: talosmith $*"
  CHECKS=$((CHECKS + 1))
  printf 'ok      %s (%d s)\n' "$what" $((SECONDS - began))
}

change() { # CODE WHAT [ARGUMENT…]
  local code=$1 what=$2
  shift 2
  write_file
  program "$code" "$what" apply --yes "$@"
}

# The same change again finds nothing to do.
settled() {
  program 0 "${1:-nothing is left to do}" plan --detailed-exitcode
}

says() { # PATTERN
  tr '\n' ' ' <<<"$OUT" | tr -s ' ' | grep -Eq -- "$1" || fail "the program does not say: $1"
  CHECKS=$((CHECKS + 1))
}

matches() { # WHAT PATTERN COMMAND…: within 30 s, because what others report is a moment late
  local what=$1 pattern=$2
  shift 2
  for _ in $(seq 30); do
    if OUT=$("$@" 2>&1) && grep -Eq -- "$pattern" <<<"$OUT"; then
      CHECKS=$((CHECKS + 1))
      printf 'ok      %s\n' "$what"
      return 0
    fi
    sleep 1
  done
  fail "$what: /$pattern/ is missing in: $*"
}

kubectl_has() { matches "kubectl: $1" "$2" "$KUBECTL" --cache-dir="$WORK/cache" --request-timeout=20s "${@:3}"; }
talos_has() { # WHAT PATTERN ADDRESS ARGUMENT…
  [[ -z $TALOSCTL ]] || matches "talosctl: $1" "$2" "$TALOSCTL" -e "$PREFIX.11" -n "$3" "${@:4}"
}
pve() { curl -sk -H "Authorization: PVEAPIToken=$TOKEN" "$URL/api2/json/$1"; }
pve_has() { matches "Proxmox: $1" "$2" pve "$3"; }
host_of() { pve "cluster/resources?type=vm" | grep -o "{[^}]*\"vmid\":$1[^0-9][^}]*}" | sed -n 's/.*"node":"\([^"]*\)".*/\1/p'; }
vm_id() { echo "$((10#$(cut -d. -f3 <<<"$PREFIX") * 1000 + $1))"; }

boot() { "$KUBECTL" --cache-dir="$WORK/cache" get node "$CLUSTER-$1" -o jsonpath='{.status.nodeInfo.bootID}'; }
uid() { "$KUBECTL" --cache-dir="$WORK/cache" get node "$CLUSTER-$1" -o jsonpath='{.metadata.uid}'; }
boots() { "$KUBECTL" --cache-dir="$WORK/cache" get nodes -o jsonpath='{range .items[*]}{.metadata.name} {.status.nodeInfo.bootID}{"\n"}{end}'; }
same() { # WHAT OLD NEW
  OUT="$2 and $3"
  [[ $2 == "$3" ]] || fail "$1"
  CHECKS=$((CHECKS + 1))
  printf 'ok      %s\n' "$1"
}
differ() {
  OUT="$2"
  [[ $2 != "$3" ]] || fail "$1"
  CHECKS=$((CHECKS + 1))
  printf 'ok      %s\n' "$1"
}

ready_nodes() {
  "$KUBECTL" --cache-dir="$WORK/cache" get nodes -o jsonpath='{range .items[*]}{.spec.unschedulable}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' |
    grep -c '^True$'
}
# That many nodes exist, and all of them are Ready and not cordoned.
whole() { # NODES
  matches "kubectl: $1 nodes are Ready, none is cordoned" "^$1\$" ready_nodes
  kubectl_has "no other node exists" "^$1\$" get nodes -o go-template='{{len .items}}'
}

ended() { echo "$CHECKS checks hold, $SECONDS s"; }
