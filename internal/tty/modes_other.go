//go:build !linux

package tty

// Modes are nothing here.
type Modes struct{}

// Is always returns false here. A command that reads from a terminal is therefore stopped by it.
func Is(any) bool { return false }

// IsOwn always returns false here.
func IsOwn(any) bool { return false }

// A Saved is nothing here: a terminal stays as a command that was ended has left it.
type Saved struct{}

// Save returns nothing here.
func Save(...any) []Saved { return nil }

// Restore does nothing here.
func (*Saved) Restore() {}

// InForeground always returns false here.
func InForeground() bool { return false }

// HasOwn always returns false here.
func HasOwn() bool { return false }
