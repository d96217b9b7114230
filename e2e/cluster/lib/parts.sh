# The cluster's processes, called its parts: how each is started and how one knows that it works. All of
# this runs inside the sandbox.

PARTS=(etcd registry private-registry containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns)
REGISTRY_USER=loggia
REGISTRY_PASSWORD=lantern

part_port() {
  case $1 in
    etcd) echo 2379 ;;
    registry) echo 5000 ;;
    private-registry) echo 5443 ;;
    kube-apiserver) echo 6443 ;;
    kube-controller-manager) echo 10257 ;;
    kube-scheduler) echo 10259 ;;
    kubelet) echo 10250 ;;
    kube-proxy) echo 10256 ;;
    coredns) echo 53 ;;
  esac
}

part_command() {
  local kubeconfig=$LIFE/kubeconfig/$1 pki=$LIFE/pki
  case $1 in
    etcd)
      # Tests lose nothing when the machine does, and every write is several times quicker.
      echo etcd --data-dir "$LIFE/etcd" --unsafe-no-fsync --log-level=warn --logger=zap --listen-client-urls=http://127.0.0.1:2379 \
        --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:2380 ;;
    registry) echo docker-registry serve "$LIFE/config/registry.yaml" ;;
    private-registry) echo docker-registry serve "$LIFE/config/private-registry.yaml" ;;
    containerd) echo containerd --config "$LIFE/config/containerd.toml" ;;
    kube-apiserver)
      echo "$BIN/kubernetes" kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address="$NODE_ADDRESS" \
        --service-cluster-ip-range="$SERVICE_RANGE" --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction,ServiceAccount,ResourceQuota,LimitRanger \
        --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
        --kubelet-certificate-authority="$pki/ca.crt" --kubelet-client-certificate="$pki/admin.crt" \
        --kubelet-client-key="$pki/admin.key" --kubelet-preferred-address-types=InternalIP \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$pki/service-account.pub" --service-account-signing-key-file="$pki/service-account.key" \
        --audit-policy-file="$LIFE/config/audit.yaml" --audit-log-path="$LIFE/audit.log" --audit-log-maxsize=1000 \
        --allow-privileged=true --profiling=false ;;
    kube-controller-manager)
      echo "$BIN/kubernetes" "$1" --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" \
        --authorization-kubeconfig="$kubeconfig" --use-service-account-credentials --leader-elect=false \
        --service-account-private-key-file="$pki/service-account.key" --root-ca-file="$pki/ca.crt" --kube-api-qps=200 --kube-api-burst=400 ;;
    kube-scheduler)
      echo "$BIN/kubernetes" "$1" --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" \
        --authorization-kubeconfig="$kubeconfig" --leader-elect=false --kube-api-qps=200 --kube-api-burst=400 ;;
    kubelet)
      echo "$BIN/kubernetes" "$1" --kubeconfig="$kubeconfig" --config="$LIFE/config/kubelet.yaml" \
        --hostname-override=loggia-e2e --node-ip="$NODE_ADDRESS" ;;
    kube-proxy)
      echo "$BIN/kubernetes" "$1" --kubeconfig="$kubeconfig" --cluster-cidr="$POD_RANGE" --hostname-override=loggia-e2e \
        --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s ;;
    coredns) echo "$BIN/coredns" -conf "$LIFE/config/Corefile" ;;
    *) fail "there is no part $1; there are ${PARTS[*]}" ;;
  esac
}

kubectl() { "$BIN/kubectl" --kubeconfig "$LIFE/kubeconfig/admin" "$@"; }

node_is_ready() {
  [[ $(kubectl get node loggia-e2e -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]
}

part_works() {
  local curl=(curl -sf -o /dev/null --max-time 2)
  case $1 in
    etcd) "${curl[@]}" http://127.0.0.1:2379/health ;;
    registry) "${curl[@]}" http://127.0.0.1:5000/v2/ ;;
    private-registry) "${curl[@]}" --cacert "$LIFE/pki/ca.crt" -u $REGISTRY_USER:$REGISTRY_PASSWORD https://localhost:5443/v2/ ;;
    containerd) [[ -S /run/containerd/containerd.sock ]] && ctr -n k8s.io containers list ;;
    kube-apiserver) "${curl[@]}" --cacert "$LIFE/pki/ca.crt" https://127.0.0.1:6443/readyz ;;
    kube-controller-manager) "${curl[@]}" -k https://127.0.0.1:10257/healthz ;;
    kube-scheduler) "${curl[@]}" -k https://127.0.0.1:10259/healthz ;;
    kubelet) "${curl[@]}" http://127.0.0.1:10248/healthz && node_is_ready ;;
    kube-proxy) "${curl[@]}" http://127.0.0.1:10256/livez ;;
    coredns) "${curl[@]}" http://127.0.0.1:8181/ready ;;
  esac
}

part_pid() { recorded "$LIFE/parts/$1"; }

part_start() {
  local pid port command
  pid=$(part_pid "$1") && return
  port=$(part_port "$1")
  if [[ -n $port ]]; then
    local holder
    holder=$(ss -Hltnp "sport = :$port" 2>/dev/null | head -1)
    [[ -z $holder ]] || fail "$1 cannot start: port $port is taken by $(sed -nE 's/.*users:\(\("([^"]*)",pid=([0-9]+).*/\1 (pid \2)/p' <<<"$holder")"
  fi
  command=$(part_command "$1")
  # What a part was given is part of its log. The limit is the number of open files that containers see.
  echo "# $command" >>"$LIFE/logs/$1.log"
  # shellcheck disable=SC2086
  setsid $command >>"$LIFE/logs/$1.log" 2>&1 </dev/null 9>&- &
  record "$LIFE/parts/$1" $!
}

part_await() {
  local pid until=$((SECONDS + ${2:-60}))
  until part_works "$1" >/dev/null 2>&1; do
    pid=$(part_pid "$1") || fail "$1 ended on start: $(last_words "$1")"
    ((SECONDS < until)) || fail "$1 does not answer: $(last_words "$1")"
    sleep 0.1
  done
}

last_words() {
  local free
  free=$(df --output=avail -m "$LIFE" | tail -1)
  ((free > 50)) || { echo "the disk of $LIFE is full"; return; }
  echo "$(grep -iE '(error|fail|fatal|panic|refus|denied)' "$LIFE/logs/$1.log" | tail -1 | cut -c1-300) (log: $LIFE/logs/$1.log)"
}

part_stop() {
  local pid
  pid=$(part_pid "$1") || return 0
  kill -CONT "$pid"
  kill -TERM "$pid"
  wait_until 20 "$1" eval "! part_pid $1" || kill -KILL "$pid"
  wait_until 10 "$1" eval "! part_pid $1" || fail "$1 (pid $pid) does not end"
  rm -f "$LIFE/parts/$1"
}
