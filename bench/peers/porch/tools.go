//go:build tools

// Package porch pins the programs that are measured beside ours.
package porch

import (
	_ "github.com/nephio-project/porch/func/server"
	_ "github.com/nephio-project/porch/func/wrapper-server"
)
