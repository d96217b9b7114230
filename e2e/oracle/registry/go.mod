module loggia.dev/e2e/oracle/registry

go 1.24.0

require github.com/google/go-containerregistry v0.20.6

require github.com/opencontainers/go-digest v1.0.0 // indirect
