package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// goTool runs the go command without go.work, with our proxy before all others and with a module cache of its own.
type goTool struct {
	env   []string
	cache string // the module cache
	proxy string // ours
	out   io.Writer
}

// newGoTool returns a goTool that gets the modules below path from proxy, and checks no sums of them elsewhere.
func newGoTool(ctx context.Context, path, proxy, cache string, out io.Writer) (*goTool, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOFLAGS", "GOMODCACHE", "GONOSUMDB", "GOPROXY")
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var user struct{ GOFLAGS, GOMODCACHE, GONOSUMDB, GOPROXY string }
	if err := json.Unmarshal(text, &user); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return &goTool{cache: cache, proxy: proxy, out: out, env: append(cmd.Environ(),
		"GOWORK=off",
		"GOMODCACHE="+cache,
		// The second is the module cache of the user: most downloads are there.
		"GOPROXY="+strings.Join([]string{proxy, downloads(user.GOMODCACHE), user.GOPROXY}, ","),
		// These may name our modules. "GONOPROXY=none" is no alternative: with any value, the go command looks for a package
		// among the modules in its cache first, and fails if it finds only a shorter path there.
		"GOPRIVATE=", "GONOPROXY=",
		"GONOSUMDB="+strings.Trim(user.GONOSUMDB+","+path, ","),
		// The temporary directory is another one each time. Without it in the output, the build cache can be used.
		"GOFLAGS="+user.GOFLAGS+" -trimpath -modcacherw",
	)}, nil
}

// downloads returns the URL by which a module cache serves as a proxy.
func downloads(cache string) string { return fileURL(filepath.Join(cache, "cache", "download")) }

// with returns a goTool with more variables in its environment.
func (g *goTool) with(variables ...string) *goTool {
	other := *g
	other.env = slices.Concat(g.env, variables)
	return &other
}

// adding returns a goTool that adds what is missing to go.mod and go.sum.
func (g *goTool) adding() *goTool {
	flags := ""
	for _, variable := range g.env { // the last one counts
		if value, ok := strings.CutPrefix(variable, "GOFLAGS="); ok {
			flags = value
		}
	}
	return g.with("GOFLAGS=" + flags + " -mod=mod")
}

// forget removes a version from the module cache.
func (g *goTool) forget(path, version string) error {
	escaped, err := module.EscapePath(path)
	if err != nil {
		return err
	}
	return errors.Join(
		os.RemoveAll(filepath.Join(g.cache, escaped+"@"+version)),
		os.RemoveAll(filepath.Join(g.cache, "cache", "download", escaped, "@v")),
	)
}

// run runs the go command in dir.
func (g *goTool) run(ctx context.Context, dir string, args ...string) error {
	cmd := g.command(ctx, dir, args)
	cmd.Stdout = g.out
	return g.done(cmd, args)
}

// output runs the go command in dir and returns what it prints.
func (g *goTool) output(ctx context.Context, dir string, args ...string) (string, error) {
	var stdout strings.Builder
	cmd := g.command(ctx, dir, args)
	cmd.Stdout = &stdout
	err := g.done(cmd, args)
	return stdout.String(), err
}

func (g *goTool) command(ctx context.Context, dir string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, g.env
	return cmd
}

// done runs the command. It shows stderr only if the command fails: otherwise that is a list of downloads.
func (g *goTool) done(cmd *exec.Cmd, args []string) error {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		_, _ = io.WriteString(g.out, stderr.String())
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
