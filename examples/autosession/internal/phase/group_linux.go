package phase

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// runGroup runs a command as the leader of a process group. The group is only signalled while its leader is running, or has ended and
// was not waited for: until then its number cannot be another's. If this process is killed, the leader is killed too.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	leader := cmd.Process.Pid
	calm := endWith(ctx, leader)
	awaitEnd(leader)
	calm()
	signalGroup(leader, unix.SIGKILL) // what the leader left behind
	return cmd.Wait()
}

// endWith ends the group when the context ends: politely, then not. The function it returns calls that off and waits until
// no signal is being sent.
func endWith(ctx context.Context, leader int) (calm func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-over:
		case <-ctx.Done():
			endGroup(leader, over)
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

func endGroup(leader int, over <-chan struct{}) {
	signalGroup(leader, unix.SIGINT)
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-over:
	case <-grace.C:
		signalGroup(leader, unix.SIGKILL)
	}
}

// signalGroup has no error to tell: a group that is gone needs no signal.
func signalGroup(leader int, signal unix.Signal) { _ = unix.Kill(-leader, signal) }

// awaitEnd returns when the process has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
