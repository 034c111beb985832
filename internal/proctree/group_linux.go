//go:build 386 || arm || mips || mipsle || mips64 || mips64le

package proctree

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

const (
	waitNoWait = 0x01000000
	maxRSSUnit = 1 << 10
)

// groupAlive reports whether the group has a living process. It reads /proc because kill also succeeds for zombies.
func groupAlive(group int) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The program's name is in parentheses and can hold any byte, so the fields are read after the last one.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 20 {
			continue
		}
		state, threads, inGroup := fields[0][0], string(fields[17]), string(fields[2]) == strconv.Itoa(group)
		dead := (state == 'Z' || state == 'X') && (threads == "0" || threads == "1") // or only its main thread has ended
		if inGroup && !dead {
			return true
		}
	}
	return false
}
