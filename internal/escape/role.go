//go:build linux

package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// The main goroutine of a role stays on the main thread, so that the role can end that thread.
func init() {
	if hasRole() {
		runtime.LockOSThread()
	}
}

func hasRole() bool {
	return len(os.Args) == 5 && strings.HasPrefix(os.Args[1], tokenStart) && os.Args[2] == roleName
}

// Main plays the role that the program's arguments name and does not return. If they name none, it returns at once.
func Main() {
	if !hasRole() {
		return
	}
	time.AfterFunc(5*time.Minute, func() { os.Exit(3) })
	r := role{token: os.Args[1], registry: os.Args[3]}
	err := json.Unmarshal([]byte(os.Args[4]), &r.part)
	if err == nil {
		err = r.run()
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

func (r role) run() error {
	if err := r.prepare(); err != nil {
		return err
	}
	if r.Then == restartsParent {
		return r.restartParent()
	}
	if r.Then == endsMainThread {
		return r.endMainThread()
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
	if r.StopsItself {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
	}
	return r.finish(last)
}

func (r role) prepare() error {
	for _, sig := range r.Ignore {
		signal.Ignore(sig)
	}
	if r.ExitsOnSignal {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, intr, term)
		go func() {
			<-asked
			os.Exit(0)
		}()
	}
	if r.SetsLimit {
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

func (r role) finish(last *os.Process) error {
	switch r.Then {
	case exits:
		return nil
	case respawns:
		return r.respawn(last)
	case churns:
		return r.churn()
	case startsTrees:
		return r.startTrees()
	}
	if len(r.Children) == 0 && !r.ExitsOnSignal {
		return r.becomeSleeper()
	}
	for { // reap the children
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			time.Sleep(time.Hour)
		}
	}
}

// start starts a child. If the child only has to exist, it is a sleep command.
func (r role) start(p part) (*os.Process, error) {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: p.Setsid}, Env: os.Environ(), Files: []*os.File{nil, nil, nil}}
	if p.KeepsStdio {
		attr.Files = []*os.File{os.Stdin, os.Stdout, os.Stderr}
	}
	if p.EmptyEnv {
		attr.Env = []string{}
	}
	if !p.onlySleeps() {
		p.Copies = 0
		return os.StartProcess("/proc/self/exe", p.args(os.Args[0], r.token, r.registry), attr)
	}
	child, err := os.StartProcess(sleepPath(), []string{"sleep", r.token}, attr)
	if err != nil {
		return nil, err
	}
	return child, r.register(child.Pid)
}

func (r role) register(pid int) error {
	file, err := os.OpenFile(r.registry, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the error of the only write is returned
	startTicks, _ := readStat(pid)
	_, err = file.WriteString(strconv.Itoa(pid) + " " + strconv.FormatUint(startTicks, 10) + "\n")
	return err
}

// becomeSleeper executes a sleep command, which needs less memory and keeps ignored signals.
func (r role) becomeSleeper() error {
	if r.ClosesFDs {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		for _, file := range files {
			syscall.CloseOnExec(atoi(file.Name()))
		}
	}
	return syscall.Exec(sleepPath(), []string{"sleep", r.token}, os.Environ())
}

// sleepPath also works with an empty environment, which has no PATH.
func sleepPath() string {
	if found, err := exec.LookPath("sleep"); err == nil {
		return found
	}
	return "/bin/sleep"
}

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

// restartParent waits until the parent has exited. Then it starts a copy of it, with a copy of this process as its
// child.
func (r role) restartParent() error {
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

// endMainThread ends the main thread and then registers this process, which lives on in its other threads. A dead main
// thread shows as a zombie.
func (r role) endMainThread() error {
	go func() {
		for ended := false; !ended; time.Sleep(time.Millisecond) {
			text, _ := os.ReadFile("/proc/self/stat")
			ended = bytes.Contains(text, []byte(") Z "))
		}
		if err := r.register(os.Getpid()); err != nil {
			os.Exit(2)
		}
		time.Sleep(time.Hour)
	}()
	_, _, errno := syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // only this thread
	return errno
}

// churn starts processes that exit at once, several at a time.
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

// startTrees starts two commands as process trees. Their processes and the guard are registered like all others.
func (r role) startTrees() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	for _, first := range []part{sleeper, daemon(sleeper)} {
		_, err := proctree.Start(proctree.Command{
			Path: path, Args: first.args(path, r.token, r.registry), Env: os.Environ(), Files: []*os.File{nil, nil, nil},
		})
		if err != nil {
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
			return atoi(fields[0]), nil
		}
	}
	return 0, errors.New("find the guard: this process has no child")
}
