package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A process is a program that runs next to the test.
type process struct {
	cmd    *exec.Cmd
	output tail
	ended  chan struct{} // closed when it has ended and was waited for
}

// startProcess starts a program with variables beside those of this process.
func startProcess(as *account, environment []string, folder, program string, arguments ...string) (*process, error) {
	cmd := exec.Command(program, arguments...) //nolint:noctx // it ends with the server, not with a call
	p := &process{cmd: cmd, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.SysProcAttr = folder, as.attributes()
	p.cmd.Env = append(p.cmd.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its output says how it ended
	}()
	return p, nil
}

// end sends a signal and waits until the process has ended. After the timeout it sends SIGKILL.
func (p *process) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // it fails if the process has ended already
	select {
	case <-p.ended:
	case <-time.After(timeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// until repeats try until it works, the process ends, or the timeout has passed.
func (p *process) until(try func() error) error {
	const pause = 10 * time.Millisecond
	for began := time.Now(); ; {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), p.output.String())
		case <-time.After(pause):
		}
		if time.Since(began) > timeout {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", filepath.Base(p.cmd.Path), timeout, err, p.output.String())
		}
	}
}

// A tail keeps the last lines of an output.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	const limit = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-limit):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}

func (t *tail) has(text string) bool { return bytes.Contains([]byte(t.String()), []byte(text)) }

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
