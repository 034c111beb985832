//go:build 386 || arm || mips || mipsle || mips64 || mips64le

package proctree

import "slices"

const (
	waitNoWait = 0x01000000
	maxRSSUnit = 1 << 10
)

// groupAlive reports whether the group has a living process. It reads /proc because kill also succeeds for zombies.
func groupAlive(group int) bool {
	return slices.ContainsFunc(idsIn("/proc"), func(pid int) bool {
		p, err := readStat(pid)
		return err == nil && p.Group == group && !p.Dead()
	})
}
