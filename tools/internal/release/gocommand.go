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

	"golang.org/x/mod/modfile"
)

// Build compiles and vets each module without go.work, and writes headings and the output of the go command to out.
func (m *Modules) Build(ctx context.Context, out io.Writer) error {
	return m.eachAlone(ctx, out, func(a *alone) error {
		if err := a.run(ctx, "build", "-o", os.DevNull, "./..."); err != nil {
			return err
		}
		return a.run(ctx, "vet", "./...")
	})
}

// TidyDiff prints what [Modules.Tidy] would change, and fails if that is anything. It does not change the checkout.
func (m *Modules) TidyDiff(ctx context.Context, out io.Writer) error {
	return m.eachAlone(ctx, out, func(a *alone) error {
		if err := a.run(ctx, "mod", "tidy", "-diff"); err != nil {
			return fmt.Errorf("%w: run make tidy", err)
		}
		return nil
	})
}

// Tidy runs go mod tidy for each module. It leaves no sums of these modules in a go.sum.
func (m *Modules) Tidy(ctx context.Context, out io.Writer) error {
	return m.eachAlone(ctx, out, func(a *alone) error {
		if err := a.run(ctx, "mod", "tidy"); err != nil {
			return err
		}
		return a.takeOver()
	})
}

// An alone is a module without go.work. What it requires of the others is replaced in a go.mod beside its own, so that
// nobody has to serve a version that is not released, and no sums of it are needed.
type alone struct {
	dir string // of the module
	mod string // the go.mod that the go command uses, with a go.sum beside it
	out io.Writer
}

// eachAlone calls do for each module, each after those that it requires, and joins the errors.
func (m *Modules) eachAlone(ctx context.Context, out io.Writer, do func(a *alone) error) error {
	return m.inTemp(func(version, temp string) error {
		var errs []error
		for _, module := range m.All {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_, _ = fmt.Fprintln(out, "==", module.Path)
			a := &alone{dir: filepath.Join(m.root, module.Dir), mod: filepath.Join(temp, "go.mod"), out: out}
			if err := m.replaceOthers(a, module, version); err != nil {
				return err
			}
			errs = append(errs, do(a))
		}
		return errors.Join(errs...)
	})
}

// inTemp calls do with the version of the modules and a folder that it deletes. It returns the error of
// [Modules.Version] if there is one.
func (m *Modules) inTemp(do func(version, temp string) error) error {
	version, err := m.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "watchdog-release-")
	if err != nil {
		return err
	}
	return errors.Join(do(version, temp), os.RemoveAll(temp))
}

// replaceOthers writes the go.mod in which the other modules are replaced, and the go.sum.
func (m *Modules) replaceOthers(a *alone, module *Module, version string) error {
	changed, err := m.read(module.Dir)
	if err != nil {
		return err
	}
	for _, other := range m.All {
		if other == module || module.beside && other == m.main() { // which it replaces itself
			continue
		}
		if err := changed.file.AddReplace(other.Path, version, filepath.Join(m.root, other.Dir), ""); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(a.dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return errors.Join(
		os.WriteFile(a.mod, modfile.Format(changed.file.Syntax), 0o644),
		os.WriteFile(sumsOf(a.mod), sums, 0o644),
	)
}

func sumsOf(mod string) string { return strings.TrimSuffix(mod, "mod") + "sum" }

// takeOver writes to the checkout what the go command has made of go.mod and go.sum.
func (a *alone) takeOver() error {
	file, err := parse(a.mod)
	if err != nil {
		return err
	}
	for _, r := range slices.Clone(file.Replace) {
		if !filepath.IsAbs(r.New.Path) { // the module's own
			continue
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	file.Cleanup()
	sums, err := os.ReadFile(sumsOf(a.mod))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	mod := filepath.Join(a.dir, "go.mod")
	return errors.Join(update(mod, modfile.Format(file.Syntax)), update(sumsOf(mod), sums))
}

// update writes a file if it differs, and removes it if nothing is to be in it.
func update(name string, text []byte) error {
	before, err := os.ReadFile(name)
	switch {
	case err != nil && !os.IsNotExist(err):
		return err
	case bytes.Equal(before, text):
		return nil
	case len(text) == 0:
		return os.Remove(name)
	}
	return os.WriteFile(name, text, 0o644)
}

// run runs the go command in the module.
func (a *alone) run(ctx context.Context, args ...string) error {
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -modfile="+a.mod)
	return runGo(ctx, a.dir, env, a.out, args...)
}

// runGo shows what the go command prints to stderr only if it fails: otherwise that is a list of downloads.
func runGo(ctx context.Context, dir string, env []string, out io.Writer, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, out, &stderr
	if err := cmd.Run(); err != nil {
		_, _ = out.Write(stderr.Bytes())
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Check uses each module as its users will. A new module gets it from a proxy that serves zips of the checkout, and
// builds its commands and a program that imports all its libraries. Then each command is installed at the version. The
// version is that of [Modules.Version].
func (m *Modules) Check(ctx context.Context, out io.Writer) error {
	return m.inTemp(func(version, temp string) (err error) {
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
	})
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
