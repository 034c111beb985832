//go:build unix && !linux && !darwin

package proctree

const maxRSSUnit = 1 << 10

// waitWithoutReaping always reports false: these systems have no waitid.
func waitWithoutReaping(int) (Status, bool) { return unknown, false }

// groupAlive is not called on systems without waitid.
func groupAlive(int) bool { return false }
