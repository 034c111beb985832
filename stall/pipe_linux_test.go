package stall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestWrappedPipe checks that Wait waits for no reader if the host put a writer around the command's pipe.
func TestWrappedPipe(t *testing.T) {
	t.Parallel()
	const size = 120_000 // more than a pipe holds while the command runs
	f := newFixture(t)
	cmd := command(t, "flood:120000")
	c, err := stall.NewCommand(cmd, f.cfg)
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var log bytes.Buffer
	cmd.Stdout = io.MultiWriter(&log, cmd.Stdout)
	require.NoError(t, c.Start(t.Context()))
	result, err := c.Wait()
	require.NoError(t, err)
	require.NoError(t, result.OutputErr)
	require.Len(t, all(t, out), size)
	require.Equal(t, size, log.Len())
}

// TestPipeOfAnotherCommand checks that one command cannot end the pipes of another.
func TestPipeOfAnotherCommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := command(t, "answer")
	c := f.newConversation(cmd)
	other := *cmd
	_, err := stall.Run(t.Context(), &other, f.cfg)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "Stdin is a pipe of another Command; make an exec.Cmd for each")
	require.NoError(t, c.Start(t.Context()))
	_, err = io.WriteString(c.in, "hello\n")
	require.NoError(t, err)
	require.NoError(t, c.in.Close())
	require.Equal(t, "you said hello\n", all(t, c.out))
	_, err = c.Wait()
	require.NoError(t, err)
}

// TestBareHost checks that a write to a command that has ended does not end a host without standard streams.
func TestBareHost(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"bare:", "feed:"} {
		path := filepath.Join(t.TempDir(), "result")
		require.NoError(t, command(t, step+path).Run())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "true", string(text))
	}
}

// bare:FILE closes its standard streams, writes to a command that has ended, and writes to the file whether an error
// said so.
func bare(path string) error {
	if err := closeStandard(); err != nil {
		return err
	}
	c, err := stall.NewCommand(exec.Command("true"), stall.Config{Step: "step", Logger: discard})
	if err != nil {
		return err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	for err == nil {
		_, err = in.Write(make([]byte, 1<<20))
	}
	_, failed := c.Wait()
	return os.WriteFile(path, fmt.Append(nil, errors.Is(err, syscall.EPIPE) && failed == nil), 0o600)
}

// feed:FILE is the same for an input that is a reader.
func feed(path string) error {
	if err := closeStandard(); err != nil {
		return err
	}
	cmd := exec.Command("true")
	r, w := io.Pipe()
	cmd.Stdin = r
	_, failed := stall.Run(context.Background(), cmd, stall.Config{Step: "step", Logger: discard})
	_, _ = w.Write([]byte("x"))        // what copies it finds that the command has ended
	time.Sleep(200 * time.Millisecond) // nothing tells when, but SIGPIPE
	return os.WriteFile(path, fmt.Append(nil, failed == nil), 0o600)
}

func closeStandard() error {
	return errors.Join(os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close())
}
