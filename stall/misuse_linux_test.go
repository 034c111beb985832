package stall_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestMisuse makes each call of a command that is out of order.
func TestMisuse(t *testing.T) {
	t.Parallel()
	stdin := func(c *stall.Command) error { _, err := c.StdinPipe(); return err }
	stdout := func(c *stall.Command) error { _, err := c.StdoutPipe(); return err }
	stderr := func(c *stall.Command) error { _, err := c.StderrPipe(); return err }
	wait := func(c *stall.Command) error { _, err := c.Wait(); return err }
	start := func(c *stall.Command) error { return c.Start(t.Context()) }
	type calls []func(*stall.Command) error
	for _, c := range []struct {
		name   string
		before calls
		call   func(*stall.Command) error
		says   string
	}{
		{"Wait before Start", nil, wait, "Wait was called, but it is not started; call Wait"},
		{"Start twice", calls{start}, start, "Start was called already; make a new"},
		{"a pipe to standard input after Start", calls{start}, stdin, "StdinPipe was called after Start; call it before"},
		{"a pipe from standard output after Start", calls{start}, stdout, "StdoutPipe was called after Start"},
		{"a pipe from standard error after Start", calls{start}, stderr, "StderrPipe was called after Start"},
		{"a pipe to standard input twice", calls{stdin}, stdin, "Stdin is set already; leave it nil and call StdinPipe once"},
		{"a pipe from standard output twice", calls{stdout}, stdout, "Stdout is set already; leave it nil and call StdoutPipe"},
		{"a pipe from standard error twice", calls{stderr}, stderr, "Stderr is set already; leave it nil and call StderrPipe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			made, err := stall.NewCommand(command(t), newFixture(t).cfg)
			require.NoError(t, err)
			for _, call := range c.before {
				require.NoError(t, call(made))
			}
			err = c.call(made)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.says)
			require.True(t, strings.HasPrefix(err.Error(), "run step step: "), err)
			if made.Pid() != 0 {
				_, err = made.Wait()
				require.NoError(t, err)
			}
		})
	}
	t.Run("a pipe in place of a writer", func(t *testing.T) {
		cmd := command(t)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), io.Discard, io.Discard
		made, err := stall.NewCommand(cmd, newFixture(t).cfg)
		require.NoError(t, err)
		for _, call := range []func(*stall.Command) error{stdin, stdout, stderr} {
			require.ErrorIs(t, call(made), watchdog.ErrInvalid)
		}
	})
	t.Run("a command that NewCommand did not make", func(t *testing.T) {
		for _, call := range []func(*stall.Command) error{stdin, stdout, stderr, start, wait} {
			err := call(&stall.Command{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "NewCommand")
		}
		require.Zero(t, new(stall.Command).Pid())
	})
	t.Run("a config or a command that cannot be used", func(t *testing.T) {
		_, err := stall.NewCommand(exec.Command("true"), stall.Config{})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = stall.NewCommand(nil, stall.Config{Step: "step"})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
}

// TestExecPipes checks that a pipe of package exec is refused wherever it was made, and that it holds nothing open then.
func TestExecPipes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*exec.Cmd) (io.Closer, error){
		"StdinPipe":  func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StdinPipe() },
		"StdoutPipe": func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StdoutPipe() },
		"StderrPipe": func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StderrPipe() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var pipe io.Closer
			refused := startsNothing(f, func(cmd *exec.Cmd) *exec.Cmd {
				var err error
				pipe, err = open(cmd)
				require.NoError(t, err)
				return cmd
			})
			require.ErrorIs(t, refused, watchdog.ErrInvalid)
			require.ErrorContains(t, refused, "make a stall.Command with NewCommand, and use the methods with these names")
			require.ErrorIs(t, pipe.Close(), os.ErrClosed)
		})
		t.Run(name+" after NewCommand", func(t *testing.T) {
			cmd := command(t)
			c, err := stall.NewCommand(cmd, newFixture(t).cfg)
			require.NoError(t, err)
			_, err = open(cmd)
			require.NoError(t, err)
			require.ErrorIs(t, c.Start(t.Context()), watchdog.ErrInvalid)
		})
	}
	t.Run("pipes of the host's own are not", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		cmd := command(t, "print:"+ready)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = r, w, w
		_, err = newFixture(t).run(cmd)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Equal(t, ready+"\n", all(t, r))
	})
}
