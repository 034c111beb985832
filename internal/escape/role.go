//go:build linux

package escape

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// Main plays the role that the program's arguments name, and then does not return. It returns at once where they name none.
func Main() {
	if len(os.Args) != 5 || !strings.HasPrefix(os.Args[1], tokenStart) || os.Args[2] != roleName {
		return
	}
	time.AfterFunc(5*time.Minute, func() { os.Exit(3) })
	r := role{token: os.Args[1], registry: os.Args[3]}
	err := json.Unmarshal([]byte(os.Args[4]), &r.part)
	if err == nil {
		err = r.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "escape:", err)
		os.Exit(2)
	}
	os.Exit(0)
}

// A role is what this process does.
type role struct {
	part
	token, registry string
}

func (r role) play() error {
	if err := r.prepare(); err != nil {
		return err
	}
	if r.Then == revives {
		return r.revive()
	}
	if err := r.register(os.Getpid()); err != nil {
		return err
	}
	var last *os.Process
	for _, child := range r.Children {
		for range max(child.Copies, 1) {
			p, err := r.start(child)
			if err != nil {
				return err
			}
			last = p
		}
	}
	if r.Stopped {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
	}
	return r.then(last)
}

// prepare changes what is the process's own, before it is written down.
func (r role) prepare() error {
	for _, sig := range r.Ignore {
		signal.Ignore(sig)
	}
	if r.Polite {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, intr, term)
		go func() {
			<-asked
			os.Exit(0)
		}()
	}
	if r.Limit {
		const locks = 10
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(locks, &limit); err != nil {
			return err
		}
		limit.Cur = 12345
		return syscall.Setrlimit(locks, &limit)
	}
	return nil
}

func (r role) then(last *os.Process) error {
	switch r.Then {
	case leaves:
		return nil
	case respawns:
		return r.respawn(last)
	case churns:
		return r.churn()
	case hosts:
		return r.host()
	}
	if len(r.Children) == 0 && !r.Polite {
		return r.becomeSleeper()
	}
	for { // a parent that waits for its children
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			time.Sleep(time.Hour)
		}
	}
}

// start starts a child: a sleep where that is enough.
func (r role) start(p part) (*os.Process, error) {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: p.Session}, Env: os.Environ(), Files: []*os.File{nil, nil, nil}}
	if p.Pipes {
		attr.Files = []*os.File{os.Stdin, os.Stdout, os.Stderr}
	}
	if p.Bare {
		attr.Env = []string{}
	}
	if !p.light() {
		p.Copies = 0
		return os.StartProcess("/proc/self/exe", p.args(os.Args[0], r.token, r.registry), attr)
	}
	child, err := os.StartProcess(sleepPath(), []string{"sleep", r.token}, attr)
	if err != nil {
		return nil, err
	}
	return child, r.register(child.Pid)
}

// register writes a process down.
func (r role) register(pid int) error {
	file, err := os.OpenFile(r.registry, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // one write, whose error is looked at
	began, _ := look(pid)
	_, err = file.WriteString(strconv.Itoa(pid) + " " + strconv.FormatUint(began, 10) + "\n")
	return err
}

// becomeSleeper goes on as a sleep, which keeps what is ignored, and weighs less.
func (r role) becomeSleeper() error {
	if r.Closed {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		for _, file := range files {
			syscall.CloseOnExec(number(file.Name()))
		}
	}
	return syscall.Exec(sleepPath(), []string{"sleep", r.token}, os.Environ())
}

// sleepPath does without a path to look in where the environment is empty.
func sleepPath() string {
	if found, err := exec.LookPath("sleep"); err == nil {
		return found
	}
	return "/bin/sleep"
}

// respawn starts the child again whenever it has ended.
func (r role) respawn(child *os.Process) error {
	for {
		if _, err := child.Wait(); err != nil {
			return err
		}
		next, err := r.start(r.Children[len(r.Children)-1])
		if err != nil {
			return err
		}
		child = next
	}
}

// revive waits until the parent has ended, starts the like of it, with a child of the like of this, and leaves it alone.
func (r role) revive() error {
	parent := os.Getppid()
	if err := r.register(os.Getpid()); err != nil {
		return err
	}
	for os.Getppid() == parent {
		time.Sleep(100 * time.Microsecond)
	}
	_, err := r.start(part{Children: []part{r.part}})
	return err
}

// churn starts processes that end at once, several at a time.
func (r role) churn() error {
	path, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	const atOnce = 2
	var failed atomic.Value
	done := make(chan struct{}, atOnce)
	for range atOnce {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				child, err := os.StartProcess(path, []string{"true", r.token}, &os.ProcAttr{})
				if err != nil {
					failed.Store(err)
					return
				}
				_, _ = child.Wait()
			}
		}()
	}
	<-done
	return failed.Load().(error)
}

// host guards two commands of its own: what they start, and the guard itself, is written down as everything else is.
func (r role) host() error {
	daemon := part{Session: true, Children: []part{sleeper}, Then: leaves}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	for _, args := range [][]string{sleeper.args(path, r.token, r.registry), daemon.args(path, r.token, r.registry)} {
		if _, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: os.Environ(), Files: []*os.File{nil, nil, nil}}); err != nil {
			return err
		}
	}
	guard, err := onlyChild()
	if err != nil {
		return err
	}
	if err := r.register(guard); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

func onlyChild() (int, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		text, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			return number(fields[0]), nil
		}
	}
	return 0, errors.New("look for the guard: this process has no child")
}
