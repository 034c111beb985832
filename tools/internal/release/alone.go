package release

import (
	"bytes"
	"context"
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

// eachAlone calls do for each module, each after those that it requires, and joins the errors. It returns the error of
// [Modules.Version] if there is one.
func (m *Modules) eachAlone(ctx context.Context, out io.Writer, do func(a *alone) error) error {
	version, err := m.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "watchdog-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
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
