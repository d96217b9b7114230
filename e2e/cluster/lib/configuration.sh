# The files that parts read, and the objects that every cluster has.

REGISTRY_NAMES=(localhost:5000 127.0.0.1:5000 "$NODE_ADDRESS:5000" "$BRIDGE_ADDRESS:5000" registry.localhost:5000)

write_configuration() {
  local config=$LIFE/config each
  mkdir -p "$config/registries" "$config/cni"
  fill() { sed -e "s|@LIFE@|$LIFE|g; s|@NODE_ADDRESS@|$NODE_ADDRESS|g; s|@POD_RANGE@|$POD_RANGE|g; s|@CGROUP@|/$CGROUP|g; s|@DNS_SERVICE_ADDRESS@|$DNS_SERVICE_ADDRESS|g" "$1"; }
  for each in "$HERE"/config/*; do fill "$each" >"$config/$(basename "$each")"; done
  mv "$config/pods.conflist" "$config/cni/"

  for each in "${REGISTRY_NAMES[@]}"; do
    mkdir -p "$config/registries/$each"
    printf '[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$each" >"$config/registries/$each/hosts.toml"
  done
  mkdir -p "$config/registries/registry.test:5443"
  printf '[host."https://registry.test:5443"]\n  capabilities = ["pull", "resolve"]\n  ca = "%s"\n' "$LIFE/pki/ca.crt" \
    >"$config/registries/registry.test:5443/hosts.toml"
  # docker-registry knows bcrypt alone; a salt of its own would protect nothing here.
  perl -e 'print "$ARGV[0]:", crypt($ARGV[1], "\$2b\$05\$loggiaLoggiaLoggiaLogg."), "\n"' \
    "$REGISTRY_USER" "$REGISTRY_PASSWORD" >"$config/htpasswd"
  grep -q '\$2b\$' "$config/htpasswd" || fail "perl's crypt knows no bcrypt, which the private registry needs"
}

push_pause() {
  local layout=$LIFE/pause
  "$IMAGE_TOOL" --output "$layout" --entrypoint /pause --file "/pause=$BIN/pause:555" --user 65535:65535
  skopeo copy --quiet --dest-tls-verify=false "oci:$layout" docker://localhost:5000/pause:1
}

create_objects() { kubectl apply -f "$LIFE/config/objects.yaml" >/dev/null; }
