package pgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// waitForProcesses waits until no process works in the cluster any more: a server whose main process was killed leaves others, which notice that a little later. Those that do not are
// killed. Where the system does not tell who works where, it returns at once.
func waitForProcesses(data string) {
	const noticing = 5 * time.Second
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		pids := working(data)
		if len(pids) == 0 || time.Since(began) > 2*noticing {
			return
		}
		if time.Since(began) < noticing {
			continue
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Signal(syscall.SIGKILL) // gone is what we want
			}
		}
	}
}

// working are the processes in a folder.
func working(folder string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is right
	for _, link := range links {
		at, err := os.Readlink(link)
		pid, notPID := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && notPID == nil && at == folder {
			pids = append(pids, pid)
		}
	}
	return pids
}
