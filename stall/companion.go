package stall

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// A companion starts commands beside the one that [Run] guards, in its folder and environment: probes, and what ends
// the rest of it elsewhere. Each is a process tree of its own, and no process of it outlives it.
type companion struct {
	env    []string
	dir    string
	origin *proctree.Origin // of the command
}

// newCompanion is called by the goroutine that is going to start the command. It reads nothing if there will be no
// companion.
func (c *Config) newCompanion(env []string, dir string) (companion, error) {
	if c.Probe == nil && c.AlsoEnd == nil {
		return companion{}, nil
	}
	origin, err := proctree.ReadOrigin()
	return companion{env: env, dir: dir, origin: origin}, err
}

// start starts a program with its arguments. Its standard output is the file; nil drops it. The end of ctx ends a start
// that hangs.
func (c companion) start(ctx context.Context, line []string, output *os.File) (*proctree.Tree, error) {
	cmd := exec.Command(line[0], line[1:]...) //nolint:noctx // package exec does not start it
	cmd.Env, cmd.Dir = c.env, c.dir
	if cmd.Err != nil {
		return nil, withoutName(cmd.Err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close() //nolint:errcheck // nothing was written
	if output == nil {
		output = null
	}
	tree, err := proctree.StartContext(ctx, proctree.Command{
		Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: cmd.Dir, Files: []*os.File{null, output, null},
		For: c.origin,
	})
	return tree, withoutName(err)
}

// withoutName returns why a program cannot be started, without its name or path, which may be a secret.
func withoutName(err error) error {
	var lookup *exec.Error
	var path *os.PathError
	switch {
	case errors.Is(err, proctree.ErrGuard): // it names no command, but what is missing for the guard, such as /proc
		return err
	case errors.As(err, &lookup):
		return lookup.Err
	case errors.As(err, &path):
		return path.Err
	default:
		return err
	}
}

// endWhole waits until a companion exits or ctx ends, and ends what is left of its tree. It reports true if ctx ended
// first.
func endWhole(ctx context.Context, tree *proctree.Tree) (timedOut bool) {
	select {
	case <-tree.Exited():
	case <-ctx.Done():
		timedOut = !isClosed(tree.Exited())
	}
	_ = tree.Kill()
	awaitKilled(tree)
	return timedOut
}
