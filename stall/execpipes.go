package stall

import (
	"errors"
	"os"
	"os/exec"
)

// errNotStarted keeps a copy of a command from being started.
var errNotStarted = errors.New("not started")

// hasExecPipes reports whether a method of [exec.Cmd] made a pipe for the command. Only package exec can close what
// such a pipe needs closed, in its Start and Wait, which are never called here.
//
// A file does not tell who made it, but package exec closes its own when a start fails. So a copy of the command fails
// to start. If the files were the host's, nothing was done; else they are of no use to it any more.
func hasExecPipes(cmd *exec.Cmd) bool {
	pipes := openPipes(cmd)
	if len(pipes) == 0 {
		return false
	}
	failing := *cmd
	failing.Err = errNotStarted
	_ = failing.Start() // returns Err
	return len(openPipes(cmd)) < len(pipes)
}

// openPipes returns the open pipes among a command's files.
func openPipes(cmd *exec.Cmd) (pipes []*os.File) {
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if !ok || f == nil {
			continue
		}
		if is, err := f.Stat(); err == nil && is.Mode()&os.ModeNamedPipe != 0 {
			pipes = append(pipes, f)
		}
	}
	return pipes
}
