# The programs that a cluster consists of: packages of Debian, and what Go builds once.

# A command that proves a package is there, and the package.
PACKAGES=(
  etcd:etcd-server containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins
  iptables:iptables conntrack:conntrack docker-registry:docker-registry skopeo:skopeo
  ip:iproute2 nsenter:util-linux openssl:openssl perl:perl-base curl:curl cc:gcc
)

install_packages() {
  local missing=() each
  for each in "${PACKAGES[@]}"; do
    command -v "${each%%:*}" >/dev/null || missing+=("${each#*:}")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || fail "these packages are missing, and there is no apt-get to install them: ${missing[*]}"
  say "installing ${missing[*]}"
  # The packages must not start services: the cluster starts its own, inside its sandbox.
  local policy=/usr/sbin/policy-rc.d ours=
  [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=yes; }
  local log=$STATE/apt.log rc=0
  { apt-get -o DPkg::Lock::Timeout=600 update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 </dev/null || rc=$?
  [[ -z $ours ]] || rm -f $policy
  ((rc == 0)) || fail "installing ${missing[*]} failed: $(grep -m1 '^E:' "$log" || echo "see $log")"
}

need_go() {
  command -v go >/dev/null && return
  say "Go is not installed, and the cluster is built with it"
  exit 3
}

# Builds FOLDER as PROGRAM, unless that version of it is there already.
build() { # FOLDER PROGRAM LDFLAGS
  [[ -x $2 ]] && return
  need_go
  say "building $(basename "$2") (once)"
  mkdir -p "$(dirname "$2")"
  local log=$STATE/build.log start=$SECONDS
  CGO_ENABLED=0 go build -C "$HERE/$1" -trimpath -ldflags "-s -w $3" -o "$2.new" . >"$log" 2>&1 || {
    rm -f "$2.new"
    fail "building $(basename "$2") failed: $(grep -m1 -v '^go: downloading' "$log" || echo "see $log")"
  }
  mv "$2.new" "$2"
  say "built $(basename "$2") in $((SECONDS - start)) s"
}

build_programs() {
  local version=k8s.io/component-base/version minor=${KUBERNETES_VERSION#v1.}
  build kubernetes "$BIN/kubernetes" "-X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 \
    -X $version.gitMinor=${minor%%.*} -X $version.gitTreeState=clean"
  build coredns "$BIN/coredns" "-X github.com/coredns/coredns/coremain.GitCommit=$COREDNS_VERSION"
  ln -sf kubernetes "$BIN/kubectl"
  if [[ ! $BIN/pause -nt $HERE/images/pause.c ]]; then
    cc -Os -static -s -o "$BIN/pause.new" "$HERE/images/pause.c" || fail "cc cannot build a static program; install libc6-dev"
    mv "$BIN/pause.new" "$BIN/pause"
  fi
}
