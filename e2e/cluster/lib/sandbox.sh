# The sandbox: one set of namespaces (network, mounts, processes) in which the whole cluster lives. Nothing
# of the host's network, mounts or ports is touched, and when its first process ends, the kernel ends all
# of it: no shim, no pod, no interface and no mount can be left behind.

CGROUPS=/sys/fs/cgroup

# Kubelet insists on these values and would set them for the whole machine; it is shown them instead.
KERNEL_VALUES=(
  vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000
)

make_sandbox() {
  local folder
  for folder in containerd kubelet cni etcd registry logs parts pod-logs; do mkdir -p "$LIFE/$folder"; done
  for folder in "$CGROUPS"/*/; do
    [[ -e $folder/cgroup.procs ]] && mkdir -p "$folder$CGROUP"
  done
  # A cpuset without CPUs and memory takes no process.
  local cpuset=$CGROUPS/cpuset
  if [[ -e $cpuset/cpuset.cpus && -e $cpuset/$CGROUP/cpuset.cpus ]]; then
    cat $cpuset/cpuset.cpus >"$cpuset/$CGROUP/cpuset.cpus"
    cat $cpuset/cpuset.mems >"$cpuset/$CGROUP/cpuset.mems"
  fi
  setsid unshare --net --mount --propagation slave --pid --fork "$HERE/lib/sandbox-first" \
    >"$LIFE/logs/sandbox.log" 2>&1 </dev/null 9>&- &
  wait_until 20 "the sandbox" test -e "$LIFE/sandbox.ready" ||
    fail "the sandbox did not start: $(tail -1 "$LIFE/logs/sandbox.log")"
}

# Runs as the first process of the new namespaces, before they have a /proc of their own: so it still reads
# the pid that the host knows it by.
become_sandbox() {
  local pid rest
  read -r pid rest </proc/self/stat
  record "$LIFE/sandbox" "$pid"
  mount -t proc proc /proc
  mount_private
  make_network
  : >"$LIFE/sandbox.ready"
  exec "$BIN/pause"
}

mount_private() {
  local each
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/lock /run/netns /var/lib/containerd /var/lib/kubelet /var/lib/cni /var/log/pods
  for each in containerd kubelet cni; do mount --bind "$LIFE/$each" "/var/lib/$each"; done
  mount --bind "$LIFE/pod-logs" /var/log/pods
  echo "$STATE" >/run/loggia-e2e
  mkdir -p /run/kernel
  for each in "${KERNEL_VALUES[@]}"; do
    local file=/run/kernel/$(basename "${each%=*}")
    echo "${each#*=}" >"$file"
    [[ ! -e /proc/sys/${each%=*} ]] || mount --bind "$file" "/proc/sys/${each%=*}"
  done
  # What runs in the sandbox finds the cluster's names, and nobody else's.
  printf 'nameserver %s\noptions timeout:2 attempts:2\n' "$NODE_ADDRESS" >/run/resolv.conf
  printf '127.0.0.1 localhost\n%s loggia-e2e registry.localhost registry.test\n' "$NODE_ADDRESS" >/run/hosts
  mount --bind /run/resolv.conf "$(readlink -f /etc/resolv.conf)"
  mount --bind /run/hosts /etc/hosts
}

make_network() {
  ip link set lo up
  ip link add node0 type veth peer name wire0
  ip link set node0 up
  ip link set wire0 up
  ip address add "$NODE_ADDRESS/24" dev node0
  # Cluster addresses need a route before kube-proxy's rules can turn them into pods. Everything else is
  # refused at once: no test waits for a host that is not there.
  ip route add "$SERVICE_RANGE" dev node0 src "$NODE_ADDRESS"
  ip route add unreachable default
  sysctl -qw net.ipv4.ip_forward=1 || echo 1 >/proc/sys/net/ipv4/ip_forward
}

remove_cgroups() {
  local top
  for top in "$CGROUPS"/*/"$CGROUP"; do
    [[ -d $top ]] || continue
    find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}
left_cgroups() { compgen -G "$CGROUPS/*/$CGROUP" >/dev/null; }

# Ends the sandbox, and with it everything inside; returns when all of it is gone.
end_sandbox() {
  local pid
  if pid=$(sandbox); then
    kill -KILL "$pid"
    wait_until 60 "the sandbox" eval '! sandbox' || fail "process $pid (the sandbox) does not end"
  fi
  local tries
  for tries in {1..100}; do
    remove_cgroups
    left_cgroups || break
    sleep 0.1
  done
  ! left_cgroups || fail "a control group of the cluster does not go away: $(compgen -G "$CGROUPS/*/$CGROUP" | head -1)"
  rm -rf "$LIFE"
}
