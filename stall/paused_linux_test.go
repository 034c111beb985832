package stall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// pausedLimit is the limit of each guard that is paused, pausedFor how long it is, and ranAgain how long it runs before
// the next pause: less than a grace.
const (
	pausedLimit = 1200 * time.Millisecond
	pausedFor   = 2500 * time.Millisecond
	ranAgain    = 200 * time.Millisecond
)

// TestPaused stops and freezes hosts for longer than the limit of their guard, once and three times in a row, while
// what they guard goes on or is frozen with them. None is ended.
func TestPaused(t *testing.T) {
	t.Parallel()
	eachPaused(t, []int{1, 3}, func(t *testing.T, guard string, pause pausing) {
		rounds := racing.Rounds(1, 20)
		var ended []error
		for range rounds {
			if _, err := pausedHost(t, guard, pause, false); err != nil {
				ended = append(ended, err)
			}
		}
		t.Logf("%d of %d were ended", len(ended), rounds)
		require.Empty(t, ended)
	})
}

// TestHungPaused checks that what hangs is ended after three pauses all the same: within its limit, its pauses and three
// graces.
func TestHungPaused(t *testing.T) {
	t.Parallel()
	eachPaused(t, []int{3}, func(t *testing.T, guard string, pause pausing) {
		latest := time.Duration(0)
		for range racing.Rounds(1, 20) {
			took, err := pausedHost(t, guard, pause, true)
			require.ErrorContains(t, err, "exit status 9")
			latest = max(latest, took)
		}
		t.Logf("ended %v after the last pause at the latest", latest.Round(time.Millisecond))
		require.Less(t, latest, pausedLimit+3*pausedLimit/4+slack)
	})
}

// TestPausedCommand checks that a command which is stopped or frozen, and not its guard, is silent, and is ended.
func TestPausedCommand(t *testing.T) {
	t.Parallel()
	ended := func(t *testing.T, f *fixture, cmd *exec.Cmd) {
		t.Helper()
		f.cfg.NoOutput, f.cfg.Grace = time.Second, graces(50*time.Millisecond, 50*time.Millisecond)
		_, stalled := f.stalled(cmd)
		require.Equal(t, stall.KindNoOutput, stalled.Trip.Kind)
	}
	inFixture(t, "stopped", func(t *testing.T, f *fixture) {
		ended(t, f, command(t, "print:"+ready, "kill:STOP", "every:50ms:x"))
	})
	inFixture(t, "frozen", func(t *testing.T, f *fixture) {
		cmd := command(t, "every:50ms:x")
		stop, goOn := cgroups2.both(t, cmd)
		defer goOn()
		cmd.Stdout = &onFirstWrite{stop}
		ended(t, f, cmd)
	})
}

var (
	cgroups1 = freezer{
		[]string{"/sys/fs/cgroup/freezer"}, "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN\n",
	}
	cgroups2 = freezer{
		[]string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1",
	}
)

func eachPaused(t *testing.T, times []int, test func(t *testing.T, guard string, pause pausing)) {
	t.Helper()
	commands := []string{"command", "probe", "command and probe"}
	all := append([]string{"run", "layer", "hold", "idle", "transport"}, commands...)
	for _, c := range []struct {
		how    string
		guards []string
		by     func(*testing.T, *exec.Cmd) (stop, goOn func())
	}{
		{"stopped", all, stopped},
		{"frozen by version 1", all, cgroups1.both},
		{"frozen by version 2", all, cgroups2.both},
		{"frozen alone", commands, cgroups1.alone},
	} {
		for _, guard := range c.guards {
			for _, times := range times {
				parallel(t, fmt.Sprintf("%s, %s, %d in a row", c.how, guard, times), func(t *testing.T) {
					test(t, guard, pausing{times, c.by})
				})
			}
		}
	}
}

// A pausing pauses a host some times. By returns what pauses a host that is not started yet, and what has it go on.
type pausing struct {
	times int
	by    func(*testing.T, *exec.Cmd) (stop, goOn func())
}

// pausedHost has a host pause, and returns how it ended, and how long after the last pause.
func pausedHost(t *testing.T, guard string, pause pausing, hangs bool) (time.Duration, error) {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(streams(over, hangs))
	defer server.Close()
	length := time.Duration(pause.times)*(pausedFor+ranAgain) + time.Second
	if hangs {
		length = 0
	}
	cmd := command(t, "paused:"+strings.Join([]string{guard, server.URL, length.String()}, ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	cmd.Stderr = &said
	stop, goOn := pause.by(t, cmd)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, _ = out.Read(make([]byte, len(ready)+1)) // fails if the host has been ended, of which its Wait tells
	time.Sleep(ranAgain)
	if hangs {
		close(over)
	}
	for range pause.times {
		stop()
		time.Sleep(pausedFor)
		goOn()
		time.Sleep(ranAgain)
	}
	paused := time.Now().Add(-ranAgain)
	if !hangs {
		time.Sleep(pausedLimit)
		close(over)
	}
	if err = cmd.Wait(); err != nil {
		return time.Since(paused), fmt.Errorf("%w: %s", err, &said)
	}
	return time.Since(paused), nil
}

// streams sends chunks until that is over, and then ends or hangs.
func streams(over <-chan struct{}, hangs bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for tick := time.Tick(50 * time.Millisecond); ; {
			_, _ = io.WriteString(w, "chunk\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-over:
				if hangs {
					<-r.Context().Done()
				}
				return
			case <-tick:
			}
		}
	}
}

// stopped pauses the host alone: what its command prints waits in the pipe.
func stopped(t *testing.T, cmd *exec.Cmd) (stop, goOn func()) {
	t.Helper()
	signal := func(sig syscall.Signal) func() {
		return func() { require.NoError(t, cmd.Process.Signal(sig)) }
	}
	return signal(syscall.SIGSTOP), signal(syscall.SIGCONT)
}

// A freezer is one of a version of cgroups. It freezes by writing a word to a file, and another file says when all is
// frozen.
type freezer struct {
	roots                               []string
	file, freeze, thaw, state, isFrozen string
}

// leavesVariable has a command leave the cgroup of its host: it names the file by which another is joined.
const leavesVariable = "STALL_TEST_LEAVES"

// alone pauses the host and not its command.
func (f freezer) alone(t *testing.T, cmd *exec.Cmd) (stop, goOn func()) {
	t.Helper()
	cmd.Env = append([]string{leavesVariable + "=" + filepath.Join(f.roots[0], "cgroup.procs")}, cmd.Env...)
	return f.both(t, cmd)
}

// both pauses the host with all that it started, as docker pause does.
func (f freezer) both(t *testing.T, cmd *exec.Cmd) (stop, goOn func()) {
	t.Helper()
	dir := f.group(t)
	joins := "echo $$ > " + dir + `/cgroup.procs && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", joins, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.file), []byte(text), 0))
	}
	return func() {
			write(f.freeze)
			eventually(t, "it is frozen", func() bool {
				state, err := os.ReadFile(filepath.Join(dir, f.state))
				return err == nil && strings.Contains(string(state), f.isFrozen)
			})
		}, func() {
			write(f.thaw)
		}
}

// group makes a cgroup that can be frozen, or skips the test.
func (f freezer) group(t *testing.T) string {
	t.Helper()
	for _, root := range f.roots {
		if !exists(filepath.Join(root, "cgroup.procs")) {
			continue
		}
		dir, err := os.MkdirTemp(root, "watchdog-test-") //nolint:usetesting // of another file system
		if err != nil {
			continue
		}
		t.Cleanup(func() { eventually(t, "its cgroup is empty", func() bool { return os.Remove(dir) == nil }) })
		if exists(filepath.Join(dir, f.file)) {
			return dir
		}
	}
	t.Skipf("no cgroup of %v that this process can make has %s", f.roots, f.file)
	return ""
}

// paused is a host: of a stream from the address, or of a command that prints or changes what its probe sees for so
// long, and else hangs. It says when it is ready, and exits with 9 if that is ended.
func paused(what string) error {
	words := strings.Split(what, ",")
	var err error
	switch words[0] {
	case "command", "probe", "command and probe":
		err = pausedCommand(words[0], duration(words[2]))
	default:
		err = pausedStream(words[0], words[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	return nil
}

func pausedCommand(guard string, length time.Duration) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	steps := []string{"work:" + length.String()}
	if length == 0 {
		steps = []string{"work:300ms", "stay"}
	}
	cmd := exec.Command(os.Args[0], append([]string{childArg}, steps...)...)
	cmd.Dir, cmd.Stdout = dir, &onFirstWrite{func() { fmt.Println(ready) }}
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, OnStall: stall.ActionFail}
	if guard != "probe" {
		cfg.NoOutput = pausedLimit
	}
	if guard != "command" {
		cfg.Probe = &stall.Probe{
			Command:  []string{"sh", "-c", `sleep 0.2; echo "{\"digest\":\"$(wc -c < state)\"}"`},
			Interval: pausedLimit / 2, Timeout: pausedFor * 3 / 5, StallThreshold: 3,
			OnError: stall.ErrorStall, ErrorThreshold: 2, // a busy machine needs long to start one
		}
	}
	_, err = stall.Run(context.Background(), cmd, cfg)
	return err
}

// work:3s prints for so long, and has a file grow. It may leave its cgroup before.
func work(length string) error {
	if file := os.Getenv(leavesVariable); file != "" {
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return err
		}
	}
	state, err := os.Create("state")
	for began := time.Now(); err == nil && time.Since(began) < duration(length); time.Sleep(50 * time.Millisecond) {
		fmt.Println("works")
		_, err = state.WriteString("x")
	}
	return errors.Join(err, state.Close())
}

func pausedStream(guard, address string) error {
	ctx, alive, client := context.Background(), func() {}, &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{}).DialContext,
	}}
	switch guard {
	case "idle":
		silent, timer := idle.WithLimit(ctx, pausedLimit)
		defer timer.Close()
		ctx, alive = silent, timer.Alive
	case "transport":
		client.Transport = &watchdoghttp.Transport{Base: client.Transport, Idle: pausedLimit}
	default:
		budget := watchdog.Budget{Idle: pausedLimit}
		outer := watchdog.Budget{}
		if guard == "run" {
			outer = budget
		}
		wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: outer, Logger: discard})
		if err != nil {
			return err
		}
		defer wd.Close()
		switch guard {
		case "layer":
			if wd, err = wd.Layer("inner", budget); err != nil {
				return err
			}
		case "hold":
			h, err := wd.Hold(ctx, "tool", watchdog.HoldLimit{Cap: time.Hour, Idle: pausedLimit})
			if err != nil {
				return err
			}
			defer h.Close()
		}
		ctx = wd.Context()
		alive = func() { // and polls, which may come before the timer rings
			wd.Activity()
			wd.Fired()
		}
		go func() {
			for ctx.Err() == nil {
				wd.Fired()
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return readAll(ctx, client, address, alive)
}

// readAll reads a stream to its end.
func readAll(ctx context.Context, client *http.Client, address string, alive func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println(ready)
	for chunk := make([]byte, len("chunk\n")); ; {
		switch _, err := resp.Body.Read(chunk); {
		case errors.Is(err, io.EOF):
			return ctx.Err()
		case err != nil:
			return err
		}
		alive()
	}
}
