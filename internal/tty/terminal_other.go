//go:build !linux || 386 || arm || mips || mipsle || mips64 || mips64le

package tty

import (
	"errors"
	"os"
	"syscall"
)

// Supported says that there are no Terminals here.
const Supported = false

// A Terminal is nothing here.
type Terminal struct{}

// A Change is nothing here.
type Change struct{}

// Open always fails here.
func Open() (*Terminal, error) { return nil, errors.ErrUnsupported }

// Pair always fails here.
func Pair() (output, command *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// Command is not called here, and neither are the others.
func (*Terminal) Command() *os.File { return nil }

// Controls is not called here.
func Controls(attr *syscall.SysProcAttr, _ int) *syscall.SysProcAttr { return attr }

// Output is not called here.
func (*Terminal) Output() *os.File { return nil }

// Host is not called here.
func (*Terminal) Host() (*os.File, Change) { return nil, Change{} }

// Start is not called here.
func (*Terminal) Start(Tree, func()) {}

// Stopped always reports false here.
func (*Terminal) Stopped() bool { return false }

// EndInput does nothing here.
func (*Terminal) EndInput() {}

// Close does nothing here.
func (*Terminal) Close() {}
