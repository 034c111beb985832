//go:build unix

package proctree

// IsProcessState reports whether a type has the fields that newState knows of an os.ProcessState.
var IsProcessState = isProcessState

// NewState makes an os.ProcessState.
var NewState = newState
