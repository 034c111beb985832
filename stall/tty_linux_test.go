package stall_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/tty"
	"github.com/seed62658d38/watchdog/stall"
)

// TestTTYHost checks that a host's terminal is set as before however the host ends, and that nothing of the command is
// left. A shell has the terminal, too, and does not care how it is set.
func TestTTYHost(t *testing.T) {
	t.Parallel()
	for how, code := range map[string]string{"run": "0", "exit": "3", "none": "0", "two": "0"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			output, line, err := tty.Pair()
			require.NoError(t, err)
			defer output.Close()
			defer line.Close()
			before := tty.Save(line)
			cmd := command(t, "terminal:"+how)
			cmd.Args = append([]string{"sh", "-c", `"$@" 2>/dev/null; echo status $?; read x`, "sh"}, cmd.Args...)
			cmd.Path, err = exec.LookPath("sh")
			require.NoError(t, err)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(output)
			text := ""
			for !strings.HasPrefix(text, "status ") {
				text, err = lines.ReadString('\n')
				require.NoError(t, err)
			}
			require.Equal(t, "status "+code, strings.TrimSpace(text))
			eventually(t, "nothing is left", func() bool { return len(processesWith(tokenOf(cmd))) <= 1 })
			eventually(t, "the terminal is as before", func() bool { return before[0] == tty.Save(line)[0] })
			_, err = output.WriteString("\n")
			require.NoError(t, err)
			require.NoError(t, cmd.Wait())
		})
	}
}

// terminal:exit is a host that gives its terminal to a command, and ends so.
func hostOnTerminal(how string) error {
	line := []string{os.Args[0], childArg, "print:" + ready, "stay"}
	if how == "run" {
		line[3] = "kill:KILL"
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: time.Hour, TTY: true}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch how {
	case "none":
		cmd = exec.Command("/nonexistent")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	case "exit":
		time.AfterFunc(time.Second, func() { os.Exit(3) })
	case "two":
		defer time.AfterFunc(time.Second, func() {
			second := exec.Command(line[0], line[1:]...)
			second.Stdout = os.Stdout
			if _, err := stall.Run(ctx, second, cfg); err == nil || !strings.Contains(err.Error(), "one at a time") {
				os.Exit(9)
			}
			cancel()
		}).Stop()
	}
	_, err := stall.Run(ctx, cmd, cfg)
	if err == nil {
		return errors.New("it ended with no error")
	}
	goleak.VerifyTestMain(succeeded{}) // ends the process, and with 1 if a goroutine is left
	return nil
}

// succeeded is a run of tests that did.
type succeeded struct{}

// Run implements [goleak.TestingM].
func (succeeded) Run() int { return 0 }
