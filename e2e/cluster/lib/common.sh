# What all commands of the test cluster share: where things are, who runs, how to speak.

set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPOSITORY=$(cd "$HERE/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/loggia-e2e
STATE=$CACHE/cluster
# One life of the cluster, gone with `down`; what is worth keeping (programs) lies beside it.
LIFE=$STATE/life
CGROUP=loggia-e2e-$(printf %s "$STATE" | cksum | cut -d' ' -f1)

# The sandbox has a network of its own, so no address here can ever be a real host's: these ranges are set
# aside for documentation and for tests of networks.
NODE_ADDRESS=192.0.2.10
POD_RANGE=198.18.0.0/16
BRIDGE_ADDRESS=198.18.0.1
SERVICE_RANGE=198.19.0.0/16
API_SERVICE_ADDRESS=198.19.0.1
DNS_SERVICE_ADDRESS=198.19.0.10

version_of() { # FOLDER MODULE
  sed -nE "s|^(require)?[[:space:]]+$2 (v[0-9.]+).*|\2|p" "$HERE/$1/go.mod" | head -1
}
KUBERNETES_VERSION=$(version_of kubernetes k8s.io/kubernetes)
COREDNS_VERSION=$(version_of coredns github.com/coredns/coredns)
# What was built of other sources lies elsewhere.
BIN=$STATE/bin/$KUBERNETES_VERSION-$(cat "$HERE"/{kubernetes,coredns}/{main.go,go.mod,go.sum} | cksum | cut -d' ' -f1)

say() { printf 'cluster: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

started_at() { # PID: when the process started, in the kernel's ticks; nothing for a process that is gone
  local stat
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  stat=${stat##*) }
  [[ ${stat:0:1} != [ZX] ]] || return 1
  cut -d' ' -f20 <<<"$stat"
}

# A record of a process is its pid and when it started: a pid alone may be another's by now.
record() { printf '%s %s\n' "$2" "$(started_at "$2")" >"$1"; } # FILE PID
recorded() { # FILE: the pid, where that very process still runs
  local pid start
  { read -r pid start <"$1"; } 2>/dev/null || return 1
  [[ $(started_at "$pid" || true) == "$start" ]] && echo "$pid"
}
sandbox() { recorded "$LIFE/sandbox"; }

inside() { # COMMAND…: in the sandbox's network, mounts and processes
  local pid
  pid=$(sandbox) || fail "the cluster is not up; start it with $HERE/up"
  nsenter --target "$pid" --mount --net --pid -- "$@"
}

wait_until() { # SECONDS WHAT COMMAND…
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}
