//go:build tools

// Package tools pins the programs of others that the tests talk to the service with.
package tools

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
