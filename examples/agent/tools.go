package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// A tool is what the model knows of one.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

var (
	sh    = tool{"sh", "Runs a shell command and returns its output.", schema(`"command":{"type":"string"}`)}
	write = tool{
		"write", "Writes a file, after a person has agreed.", schema(`"path":{"type":"string"},"text":{"type":"string"}`),
	}
	delegate = tool{
		"delegate", "Gives tasks to agents that work at the same time, and returns their answers.",
		schema(`"tasks":{"type":"array","items":{"type":"string"}}`),
	}
)

func schema(properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)
}

// tools are those that the agent has: none when it is to wrap up.
func (a *agent) tools() []tool {
	switch {
	case a.wrapUp:
		return nil
	case a.lead:
		return []tool{sh, write, delegate}
	}
	return []tool{sh}
}

// call makes one call of a tool. Its error is for the model.
func (a *agent) call(ctx context.Context, n int, b block) (string, error) {
	var in struct {
		Command, Path, Text string
		Tasks               []string
	}
	if err := json.Unmarshal(b.Input, &in); err != nil {
		return "", fmt.Errorf("the input is not as the schema says: %w", err)
	}
	switch {
	case b.Name == sh.Name:
		return a.command(ctx, n, in.Command)
	case b.Name == write.Name && a.lead:
		return a.write(ctx, n, in.Path, in.Text)
	case b.Name == delegate.Name && a.lead:
		return a.delegate(ctx, n, in.Tasks)
	}
	return "", fmt.Errorf("there is no tool %q", b.Name)
}

// command runs a command with all that it starts. One that hangs is ended, and the model told so.
func (a *agent) command(ctx context.Context, n int, command string) (string, error) {
	a.say("$ %s", command)
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", command) //nolint:noctx // stall ends it
	cmd.Stdout, cmd.Stderr = &out, &out
	result, err := stall.Run(ctx, cmd, stall.Config{
		Step: fmt.Sprintf("sh-%d", n), NoOutput: 30 * time.Second, WallClock: 5 * time.Minute,
		Grace: []stall.Step{{Signal: syscall.SIGINT, Grace: time.Second}, {Signal: syscall.SIGTERM, Grace: time.Second}},
	})
	const most = 8 << 10
	text := string(out.Bytes()[:min(out.Len(), most)])
	if result != nil && result.Finished && result.ExitCode != 0 {
		return fmt.Sprintf("%sexit status %d\n", text, result.ExitCode), nil
	}
	return text, err
}

// write asks a person first. While they think, the wall clock stands still and nothing counts as silence.
func (a *agent) write(ctx context.Context, n int, path, text string) (string, error) {
	path = filepath.Join(".", filepath.Clean("/"+path))
	if !a.yes {
		wait := watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true}
		var agreed bool
		err := a.wd.During(ctx, fmt.Sprintf("approval-%d", n), wait, func(ctx context.Context) (err error) {
			agreed, err = a.people.agrees(ctx, fmt.Sprintf("write %d bytes to %s?", len(text), path))
			return err
		})
		if err != nil {
			return "", err
		}
		if !agreed {
			return "", errors.New("the person said no")
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	return "written", nil
}

// A console is where people read and answer. It is safe for concurrent use.
type console struct {
	in  io.Reader
	out io.Writer

	mu    sync.Mutex
	lines chan string // what they type, once somebody has asked
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintln(c.out, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// agrees asks a question and waits for an answer. The end of the input is a no.
func (c *console) agrees(ctx context.Context, question string) (bool, error) {
	c.say("%s [y/N]", question)
	c.mu.Lock()
	if c.lines == nil {
		c.lines = make(chan string)
		go func() { // a read cannot be given up: it ends with the program
			defer close(c.lines)
			for in := bufio.NewScanner(c.in); in.Scan(); {
				c.lines <- in.Text()
			}
		}()
	}
	c.mu.Unlock()
	select {
	case line := <-c.lines:
		return strings.EqualFold(strings.TrimSpace(line), "y"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
