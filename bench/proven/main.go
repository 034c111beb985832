// Proven runs package stall on this system and prints what was tried, expected and seen, as Markdown.
//
//	GOWORK=off go run ./proven
//
// It is for systems that no CI of ours runs on, such as Windows: what it prints can stand in docs/stall.md. It takes a
// minute, starts processes of its own only, and ends them all, also if it is killed. The exit status is 1 if something
// was not as expected.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childMark {
		os.Exit(beChild(os.Args[2:]))
	}
	if !printAll(os.Stdout, checks()) {
		os.Exit(1)
	}
}

// cell keeps a text within its cell.
var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// printAll runs the checks, prints a row for each, and reports whether all is as expected.
func printAll(w io.Writer, all []check) bool {
	_, _ = fmt.Fprintf(w, "%s, %s, %s:\n\n| what | expected | seen |\n|---|---|---|\n",
		system(), runtime.GOARCH, strings.Fields(runtime.Version())[0])
	good := 0
	for _, c := range all {
		seen := c.try()
		if seen == c.expected {
			good++
		} else {
			seen = "**" + seen + "**"
		}
		_, _ = fmt.Fprintf(w, "| %s | %s | %s |\n", c.what, cell.Replace(c.expected), cell.Replace(seen))
	}
	_, _ = fmt.Fprintf(w, "\n%d of %d as expected\n", good, len(all))
	return good == len(all)
}

// How long to wait between the signals: not at all, or long enough for a program that heeds the first one.
var (
	atOnce = []stall.Step{{Signal: syscall.SIGKILL}}
	softly = []stall.Step{{Signal: syscall.SIGINT, Grace: 2 * time.Second}, {Signal: syscall.SIGTERM, Grace: time.Second}}
)

// A check tries one thing, and says what it saw.
type check struct {
	what, expected string
	see            func(*trial) string
}

// A trial is one check under way.
type trial struct{ census *census }

// try runs the check and ends all that is left of it.
func (c check) try() string {
	census, err := newCensus()
	if err != nil {
		return err.Error()
	}
	defer census.close()
	seen := make(chan string, 1)
	go func() { seen <- c.see(&trial{census}) }()
	select {
	case s := <-seen:
		return s
	case <-time.After(patience):
		return fmt.Sprintf("nothing after %v", patience)
	}
}

func checks() []check {
	return append([]check{
		{"a command that succeeds", "exit 0", func(t *trial) string { return t.exits("exit", "0") }},
		{"a command that fails", "exit 7", func(t *trial) string { return t.exits("exit", "7") }},
		{"a program that is not there", "an error that says so", missing},
		{"1 MiB through pipes to the command and back", "unchanged", echoed},
		{"64 MiB of output", "unchanged", printed},
		{"a command that prints on, under a limit of silence", "exit 0", ticks},
		{"a command that prints nothing", "watchdog_no_output, 0 alive", silent},
		{"a probe that sees no change", "watchdog_no_progress, 0 alive", stuck},
		{"a command, 3 children and 9 grandchildren, at the end of the context", "0 alive", func(t *trial) string {
			return t.cancelled(13, "tree", "3", "2")
		}},
		{"50 children, at the end of the context", "0 alive", func(t *trial) string {
			return t.cancelled(51, "tree", "50", "1")
		}},
		{"a child that is a daemon: no console, or a session of its own", "0 alive", func(t *trial) string {
			return t.cancelled(2, "parent", "as a daemon", "stay")
		}},
		{"a child that a command leaves behind, with its output", "exit 0, 1 left behind, 0 alive", leftBehind},
		{"a child that a command leaves behind and is to be kept", "exit 0, 0 left behind, 1 alive", kept},
		{"the soft step, to a command that heeds it", "exit 5, 0 alive", func(t *trial) string {
			return t.asked(t.command("polite"))
		}},
		{"the soft step, to a command that does not", "killed, 0 alive", func(t *trial) string {
			return t.asked(t.command("rude"))
		}},
		{"a host that is killed", "0 alive", hostKilled},
		{"a host that is a command of another one, at its end", "0 alive", func(t *trial) string {
			return t.cancelled(7, "host")
		}},
	}, own()...)
}

func (t *trial) command(role ...string) *exec.Cmd {
	cmd := self(role...)
	cmd.Env = append(os.Environ(), censusVariable+"="+t.census.listener.Addr().String())
	return cmd
}

func (*trial) config() stall.Config { return stall.Config{Step: "check", Grace: atOnce} }

// watched is a config for a command that a limit ends, which needs a store.
func (t *trial) watched() stall.Config {
	cfg := t.config()
	cfg.Store = &watchdog.Memory{}
	return cfg
}

// run runs a command and returns what it printed, too.
func (*trial) run(cmd *exec.Cmd, cfg stall.Config) (*stall.Result, []byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	result, err := stall.Run(context.Background(), cmd, cfg)
	return result, out.Bytes(), err
}

// ended says how a command ended.
func ended(result *stall.Result, err error) string {
	switch {
	case result == nil:
		return err.Error()
	case result.Signal == syscall.SIGKILL:
		return "killed"
	case result.Signal != 0:
		return result.Signal.String()
	}
	return fmt.Sprintf("exit %d", result.ExitCode)
}

func (t *trial) exits(role ...string) string {
	result, _, err := t.run(t.command(role...), t.config())
	return ended(result, err)
}

// cancelled cancels a command when so many processes are alive.
func (t *trial) cancelled(processes int, role ...string) string {
	_, seen := t.cancel(processes, atOnce, t.command(role...))
	return seen
}

func (t *trial) cancel(processes int, grace []stall.Step, cmd *exec.Cmd) (how, seen string) {
	cfg := t.config()
	cfg.Grace = grace
	c, err := stall.NewCommand(cmd, cfg)
	if err != nil {
		return "", err.Error()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return "", err.Error()
	}
	ready := t.census.wait(processes)
	cancel()
	how = ended(c.Wait())
	if started, _ := t.census.count(); !ready {
		return how, fmt.Sprintf("%d of %d processes started", started, processes)
	}
	return how, fmt.Sprintf("%d alive", t.census.settled())
}

// asked cancels a command with graces, so that it is asked to end before it is killed.
func (t *trial) asked(cmd *exec.Cmd) string {
	how, seen := t.cancel(1, softly, cmd)
	return how + ", " + seen
}

func missing(t *trial) string {
	cmd := t.command()
	cmd.Path += "-that-is-not-there"
	if _, err := stall.Run(context.Background(), cmd, t.config()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprint(err)
	}
	return "an error that says so"
}

func echoed(t *trial) string {
	c, err := stall.NewCommand(t.command("echo"), t.config())
	if err != nil {
		return err.Error()
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err.Error()
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	if err := c.Start(context.Background()); err != nil {
		return err.Error()
	}
	sent := bytes.Repeat([]byte("to and fro\r\n\x00\xff"), 1<<20/14)
	go func() {
		_, _ = in.Write(sent)
		_ = in.Close()
	}()
	got, readErr := io.ReadAll(out)
	if _, err := c.Wait(); err != nil || readErr != nil {
		return fmt.Sprint(errors.Join(err, readErr))
	}
	return unchanged(bytes.Equal(got, sent))
}

func unchanged(is bool) string {
	if is {
		return "unchanged"
	}
	return "changed"
}

func printed(t *trial) string {
	result, out, err := t.run(t.command("print", "64"), t.config())
	if err != nil || result.OutputErr != nil {
		return fmt.Sprint(err, result)
	}
	same := len(out) == 64<<20
	for n := 0; same && len(out) > 0; n++ {
		block := blockOf(n)
		same = bytes.HasPrefix(out, block)
		out = out[len(block):]
	}
	return unchanged(same)
}

func ticks(t *trial) string {
	cfg := t.watched()
	cfg.NoOutput = 2 * time.Second
	result, _, err := t.run(t.command("tick", "30"), cfg)
	return ended(result, err)
}

func silent(t *trial) string {
	cfg := t.watched()
	cfg.NoOutput = 500 * time.Millisecond
	_, _, err := t.run(t.command("tree", "1", "1"), cfg)
	return t.stalled(err)
}

func stuck(t *trial) string {
	cfg := t.watched()
	cfg.Probe = &stall.Probe{Command: self("same").Args, Interval: 100 * time.Millisecond, StallThreshold: 3}
	_, _, err := t.run(t.command("tree", "0", "0"), cfg)
	return t.stalled(err)
}

func (t *trial) stalled(err error) string {
	var stalled *stall.Stalled
	if !errors.As(err, &stalled) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s, %d alive", stalled.Stop.Code, t.census.settled())
}

func leftBehind(t *trial) string {
	result, _, err := t.run(t.command("parent", "plainly", "exit"), t.config())
	return t.left(result, err)
}

func kept(t *trial) string {
	cfg := t.config()
	cfg.KeepBackground = true
	result, _, err := t.run(t.command("parent", "plainly", "exit"), cfg)
	t.census.wait(1)
	return t.left(result, err)
}

func (t *trial) left(result *stall.Result, err error) string {
	seen := ended(result, err)
	if result != nil {
		seen = fmt.Sprintf("%s, %d left behind, %d alive", seen, result.LeftBehind, t.census.settled())
	}
	return seen
}

func hostKilled(t *trial) string {
	host := t.command("host")
	if err := host.Start(); err != nil {
		return err.Error()
	}
	ready := t.census.wait(7)
	_ = host.Process.Kill()
	_ = host.Wait()
	if !ready {
		return "it did not start"
	}
	return fmt.Sprintf("%d alive", t.census.settled())
}
