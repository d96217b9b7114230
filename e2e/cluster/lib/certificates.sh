# A certificate authority for one life of the cluster, what it signs, and a kubeconfig for each who calls.

PKI=$LIFE/pki

quiet_openssl() {
  local output
  output=$(openssl "$@" 2>&1) || fail "openssl $1: $output"
}

authority() {
  mkdir -p "$PKI"
  quiet_openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj /CN=loggia-e2e -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$PKI/ca.key" -out "$PKI/ca.crt"
  # Some programs want a folder of authorities, in which there is nothing else.
  mkdir "$PKI/trust" && cp "$PKI/ca.crt" "$PKI/trust/"
}

certificate() { # NAME SUBJECT [ALTERNATIVE-NAMES]
  quiet_openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" \
    -keyout "$PKI/$1.key" -out "$PKI/$1.csr"
  { echo "extendedKeyUsage=clientAuth,serverAuth"; [[ -z ${3-} ]] || echo "subjectAltName=$3"; } >"$PKI/$1.ext"
  quiet_openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 3650 \
    -extfile "$PKI/$1.ext" -out "$PKI/$1.crt"
  rm "$PKI/$1.csr" "$PKI/$1.ext"
}

kubeconfig() { # NAME
  mkdir -p "$LIFE/kubeconfig"
  cat >"$LIFE/kubeconfig/$1" <<END
apiVersion: v1
kind: Config
clusters:
- name: loggia-e2e
  cluster:
    server: https://$NODE_ADDRESS:6443
    certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$PKI/$1.crt")
    client-key-data: $(base64 -w0 "$PKI/$1.key")
contexts:
- name: loggia-e2e
  context: {cluster: loggia-e2e, user: $1}
current-context: loggia-e2e
END
}

make_certificates() {
  authority
  certificate apiserver /CN=kube-apiserver "IP:$NODE_ADDRESS,IP:127.0.0.1,IP:$API_SERVICE_ADDRESS,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  certificate kubelet-server /CN=loggia-e2e "IP:$NODE_ADDRESS,DNS:loggia-e2e"
  certificate registry /CN=registry.test "DNS:registry.test,DNS:localhost,IP:$NODE_ADDRESS,IP:127.0.0.1"
  certificate admin /O=system:masters/CN=admin
  certificate kube-controller-manager /CN=system:kube-controller-manager
  certificate kube-scheduler /CN=system:kube-scheduler
  certificate kube-proxy /CN=system:kube-proxy
  certificate kubelet /O=system:nodes/CN=system:node:loggia-e2e
  certificate coredns /CN=coredns
  local each
  for each in admin kube-controller-manager kube-scheduler kube-proxy kubelet coredns; do kubeconfig $each; done
  quiet_openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/service-account.key"
  quiet_openssl ec -in "$PKI/service-account.key" -pubout -out "$PKI/service-account.pub"
}
