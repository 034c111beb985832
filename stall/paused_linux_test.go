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

func init() { childSteps["paused"] = paused }

// pausedLimit is the limit of each guard that is paused, pausedFor how long it is.
const (
	pausedLimit = 1200 * time.Millisecond
	pausedFor   = 2500 * time.Millisecond
)

// TestPaused stops and freezes hosts for longer than the limit of their guard, once and three times in a row, while
// what they guard goes on or is frozen with them. None is ended, and one that hangs is.
func TestPaused(t *testing.T) {
	t.Parallel()
	for how, pause := range map[string]pausing{"stopped": stopped, "frozen": frozen} {
		for _, guard := range []string{"run", "layer", "hold", "idle", "transport", "command", "probe"} {
			parallel(t, how+" "+guard, func(t *testing.T) {
				for range racing.Rounds(2, 20) {
					for _, times := range []int{1, 3} {
						require.NoError(t, pausedHost(t, guard, false, times, pause), "%d pauses", times)
					}
				}
				began := time.Now()
				require.Error(t, pausedHost(t, guard, true, 1, pause))
				require.Less(t, time.Since(began), pausedFor+slack)
			})
		}
	}
}

// A pausing returns what pauses a host that is not started yet, and what has it go on.
type pausing = func(*testing.T, *exec.Cmd) (stop, goOn func())

// pausedHost has a host pause some times, and returns how it ended.
func pausedHost(t *testing.T, guard string, hangs bool, times int, pause pausing) error {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for tick := time.Tick(50 * time.Millisecond); ; {
			_, _ = io.WriteString(w, "chunk\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-over:
				if !hangs {
					return
				}
				<-r.Context().Done()
				return
			case <-tick:
			}
		}
	}))
	defer server.Close()
	end := time.Duration(times)*(pausedFor+200*time.Millisecond) + time.Second
	if hangs {
		end = time.Hour
	}
	cmd := command(t, "paused:"+guard+" "+server.URL+" "+end.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	cmd.Stderr = &said
	stop, goOn := pause(t, cmd)
	require.NoError(t, cmd.Start())
	time.Sleep(700 * time.Millisecond)
	if hangs {
		close(over)
	}
	for range times {
		stop()
		time.Sleep(pausedFor)
		goOn()
		time.Sleep(200 * time.Millisecond)
	}
	if !hangs {
		time.Sleep(pausedLimit)
		close(over)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, &said)
	}
	return nil
}

// stopped pauses the host alone, or a host that guards a command with all that it started.
func stopped(t *testing.T, cmd *exec.Cmd) (stop, goOn func()) {
	signal := func(sig syscall.Signal) func() {
		return func() { require.NoError(t, cmd.Process.Signal(sig)) }
	}
	return signal(syscall.SIGSTOP), signal(syscall.SIGCONT)
}

// frozen pauses the host with all that it started, as docker pause does.
func frozen(t *testing.T, cmd *exec.Cmd) (stop, goOn func()) {
	for _, by := range [...]struct{ root, file, freeze, thaw, state, frozen string }{
		{"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN\n"},
		{"/sys/fs/cgroup", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
		{"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
	} {
		dir, err := os.MkdirTemp(by.root, "watchdog-test-") //nolint:usetesting // of another file system
		if err != nil {
			continue
		}
		t.Cleanup(func() { eventually(t, "its cgroup is empty", func() bool { return os.Remove(dir) == nil }) })
		if !exists(filepath.Join(dir, by.file)) {
			continue
		}
		joins := "echo $$ > " + dir + `/cgroup.procs && exec "$@"`
		cmd.Args = append([]string{"sh", "-c", joins, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		write := func(text string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, by.file), []byte(text), 0))
		}
		return func() {
				write(by.freeze)
				eventually(t, "it is frozen", func() bool {
					state, err := os.ReadFile(filepath.Join(dir, by.state))
					return err == nil && strings.Contains(string(state), by.frozen)
				})
			}, func() {
				write(by.thaw)
			}
	}
	t.Skip("no cgroup freezer that can be written to")
	return nil, nil
}

// paused is a host: of a stream from the address, or of a command that prints or changes what its probe sees for so
// long. It exits with 9 if that is ended.
func paused(what string) error {
	words := strings.Fields(what)
	length, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	switch words[0] {
	case "command", "probe":
		err = pausedCommand(words[0] == "probe", length)
	default:
		err = pausedStream(words[0], words[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	return nil
}

func pausedCommand(probed bool, length time.Duration) error {
	lines := strconv.Itoa(int(length / (100 * time.Millisecond)))
	if length == time.Hour { // it hangs
		lines = "2"
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("sh", "-c", `for i in $(seq `+lines+`); do echo $i; echo $i > state; sleep 0.1; done; [ `+lines+
		` = 2 ] && sleep 3600; exit 0`)
	cmd.Dir, cmd.Stdout = dir, io.Discard
	cfg := stall.Config{
		Step: "step", Store: &watchdog.Memory{}, Logger: discard, OnStall: stall.ActionFail, NoOutput: pausedLimit,
	}
	if probed {
		cfg.NoOutput = 0
		cfg.Probe = &stall.Probe{
			Command: []string{"sh", "-c", `sleep 0.2; echo "{\"digest\":\"$(cat state)\"}"`}, Interval: 600 * time.Millisecond,
			Timeout: 900 * time.Millisecond, StallThreshold: 3, OnError: stall.ErrorStall, ErrorThreshold: 1,
		}
	}
	_, err = stall.Run(context.Background(), cmd, cfg)
	return err
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
