//go:build !unix

package state

// syncDir does nothing: this system cannot sync directories.
func syncDir(string) error { return nil }
