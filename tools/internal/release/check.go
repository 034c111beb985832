package release

import (
	"bytes"
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
)

// Check uses each module as its users will. A new module gets it from a proxy that serves zips of the checkout, and
// builds its commands and a program that imports all its libraries. Then each command is installed at the version. The
// version is that of [Modules.Version].
func (m *Modules) Check(ctx context.Context, out io.Writer) (err error) {
	version, err := m.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "watchdog-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	served := filepath.Join(temp, "proxy")
	if err := m.serve(ctx, served, version); err != nil {
		return err
	}
	user := &consumer{version: version, temp: temp, out: out}
	if user.env, err = environment(ctx, m.main().Path, served, filepath.Join(temp, "modules")); err != nil {
		return err
	}
	for i, module := range m.All {
		if err := user.check(ctx, module, filepath.Join(temp, fmt.Sprint("consumer", i))); err != nil {
			return err
		}
	}
	return nil
}

// environment is that of a go command that gets the modules below a path from a proxy, checks no sums of them
// elsewhere, and has a module cache of its own.
func environment(ctx context.Context, path, proxy, cache string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOFLAGS", "GOMODCACHE", "GONOSUMDB", "GOPROXY")
	text, err := cmd.Output()
	var user struct{ GOFLAGS, GOMODCACHE, GONOSUMDB, GOPROXY string }
	if err == nil {
		err = json.Unmarshal(text, &user)
	}
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	downloads := filepath.Join(user.GOMODCACHE, "cache", "download") // most are there
	return append(cmd.Environ(),
		"GOWORK=off",
		"GOMODCACHE="+cache,
		"GOPROXY="+strings.Join([]string{fileURL(proxy), fileURL(downloads), user.GOPROXY}, ","),
		// These may name our modules. "GONOPROXY=none" is no alternative: with any value, the go command looks for a package
		// among the modules in its cache first, and fails if it finds only a shorter path there.
		"GOPRIVATE=", "GONOPROXY=",
		"GONOSUMDB="+strings.Trim(user.GONOSUMDB+","+path, ","),
		// The temporary directory is another one each time. Without it in the output, the build cache can be used.
		"GOFLAGS="+user.GOFLAGS+" -trimpath -modcacherw -mod=mod",
	), nil
}

// A consumer is who uses modules at a version.
type consumer struct {
	version, temp string
	env           []string
	out           io.Writer
}

func (c *consumer) run(ctx context.Context, dir string, out io.Writer, args ...string) error {
	return runGo(ctx, dir, c.env, out, args...)
}

// check gets a module in a new one in dir, builds its commands and a program with all its libraries there, and installs
// the commands from outside of any module.
func (c *consumer) check(ctx context.Context, module *Module, dir string) error {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("module example.com/consumer\n\ngo %s\n", module.file.Go.Version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	if err := c.run(ctx, dir, c.out, "get", module.Path+"@"+c.version); err != nil {
		return err
	}
	libraries, commands, err := c.packages(ctx, module, dir)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.out, "== %s@%s: %d libraries, %d commands\n",
		module.Path, c.version, len(libraries), len(commands))
	var program strings.Builder
	program.WriteString("package main\n\n")
	for _, path := range libraries {
		fmt.Fprintf(&program, "import _ %q\n", path)
	}
	program.WriteString("\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o644); err != nil {
		return err
	}
	build := slices.Concat([]string{"build", "-o", bin + string(filepath.Separator), "."}, commands)
	if err := c.run(ctx, dir, c.out, build...); err != nil || len(commands) == 0 {
		return err
	}
	install := []string{"install"}
	for _, path := range commands {
		install = append(install, path+"@"+c.version)
	}
	return runGo(ctx, c.temp, append(c.env, "GOBIN="+bin), c.out, install...)
}

// packages lists the import paths of the packages of a module that neither are internal nor only tests.
func (c *consumer) packages(ctx context.Context, module *Module, dir string) (libraries, commands []string, err error) {
	const format = "{{if or .GoFiles .CgoFiles}}{{.Module.Path}} {{.Name}} {{.ImportPath}}{{end}}"
	var list bytes.Buffer
	if err := c.run(ctx, dir, &list, "list", "-find", "-f", format, module.Path+"/..."); err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(list.String()) {
		words := strings.Fields(line)
		switch {
		case len(words) != 3 || words[0] != module.Path || slices.Contains(strings.Split(words[2], "/"), "internal"):
		case words[1] == "main":
			commands = append(commands, words[2])
		default:
			libraries = append(libraries, words[2])
		}
	}
	return libraries, commands, nil
}
