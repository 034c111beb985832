package pgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// waitForProcesses waits until no process runs in the cluster's folder. When a server's main process is killed, its
// other processes notice that a little later; waitForProcesses kills those that do not. On systems without /proc it
// returns at once.
func waitForProcesses(data string) {
	const grace = 5 * time.Second
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		pids := working(data)
		if len(pids) == 0 || time.Since(began) > 2*grace {
			return
		}
		if time.Since(began) < grace {
			continue
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Signal(syscall.SIGKILL) // it fails if the process is gone already
			}
		}
	}
}

// working returns the processes whose working directory is the folder.
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
