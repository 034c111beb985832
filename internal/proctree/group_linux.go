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

// peopled reports that the group has a living process. A signal would be taken by zombies too.
func peopled(group int) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // a program's name can hold anything but stands in brackets
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			return true
		}
	}
	return false
}
