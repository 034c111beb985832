//go:build linux

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// hostRole begins the argument of the process that runs a command with a tool: the program can kill that process.
const hostRole = "survivors-host:"

// A task is the command and the tool of that process.
type task struct {
	Tool, Path string
	Args       []string
}

// A tool runs a command until its limit or until the context ends.
type tool struct {
	name      string
	signalled bool // the tool is a program that a signal ends
	run       func(context.Context, *exec.Cmd) error
}

var tools = []tool{
	{name: "watchdog/stall", run: underStall},
	{name: "timeout -k 1", signalled: true, run: underTimeout},
	{name: "exec.CommandContext", run: underContext},
	{name: "its own group and WaitDelay", run: underGroup},
}

// beHost runs the task. It cancels the task when its input ends.
func beHost(text string) int {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, tool := range tools {
		if tool.name != t.Tool {
			continue
		}
		if !tool.signalled {
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin) // only the end counts
				cancel()
			}()
		}
		if err := tool.run(ctx, &exec.Cmd{Path: t.Path, Args: t.Args}); err != nil {
			return 1
		}
	}
	return 0
}

func underStall(ctx context.Context, cmd *exec.Cmd) error {
	_, err := stall.Run(ctx, cmd, stall.Config{
		Step: "shape", Store: &watchdog.Memory{}, NoOutput: limit,
		Grace: []stall.Step{{Signal: syscall.SIGINT, Grace: grace / 2}, {Signal: syscall.SIGTERM, Grace: grace / 2}},
	})
	return err
}

// underTimeout replaces this process with the program timeout.
func underTimeout(_ context.Context, cmd *exec.Cmd) error {
	path, err := exec.LookPath("timeout")
	if err != nil {
		return err
	}
	args := append([]string{"timeout", "-k", "1", "4", cmd.Path}, cmd.Args[1:]...)
	return syscall.Exec(path, args, os.Environ())
}

func underContext(ctx context.Context, cmd *exec.Cmd) error {
	return within(ctx, cmd, func(*exec.Cmd) {})
}

// underGroup has the context end a group of its own.
func underGroup(ctx context.Context, cmd *exec.Cmd) error {
	return within(ctx, cmd, func(bound *exec.Cmd) {
		bound.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		bound.Cancel = func() error { return syscall.Kill(-bound.Process.Pid, syscall.SIGTERM) }
	})
}

// within runs a command until the limit, like a host that reads the output.
func within(ctx context.Context, cmd *exec.Cmd, prepare func(bound *exec.Cmd)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bound := exec.CommandContext(ctx, cmd.Path)
	bound.Args, bound.WaitDelay, bound.Stdout = cmd.Args, grace, notAFile{}
	prepare(bound)
	return bound.Run()
}

// notAFile is a writer that discards everything.
type notAFile struct{}

func (notAFile) Write(p []byte) (int, error) { return len(p), nil }
