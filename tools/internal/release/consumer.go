package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packages are the import paths of the packages of a module that other modules can use.
type packages struct{ libraries, commands []string }

// Check uses each module as its users will. A new module gets it, and builds its commands and a program that imports
// all its libraries. Then each command is installed at the version.
func (c *Copy) Check(ctx context.Context) error {
	if err := c.publishAll(ctx); err != nil {
		return err
	}
	for _, module := range c.modules.All {
		packages, err := c.packages(ctx, module)
		if err != nil {
			return err
		}
		c.heading(fmt.Sprintf("%s@%s: %d libraries, %d commands",
			module.Path, c.version, len(packages.libraries), len(packages.commands)))
		if err := c.require(ctx, module, packages); err != nil {
			return err
		}
		if err := c.install(ctx, packages.commands); err != nil {
			return err
		}
	}
	return nil
}

// packages lists the packages of a module that are neither internal nor only tests.
func (c *Copy) packages(ctx context.Context, module *Module) (packages, error) {
	var found packages
	const format = "{{if or .GoFiles .CgoFiles}}{{.Name}} {{.ImportPath}}{{end}}"
	list, err := c.tool.output(ctx, c.dir(module), "list", "-find", "-f", format, "./...")
	if err != nil {
		return found, err
	}
	for line := range strings.Lines(list) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case path == "" || slices.Contains(strings.Split(path, "/"), "internal"):
		case name == "main":
			found.commands = append(found.commands, path)
		default:
			found.libraries = append(found.libraries, path)
		}
	}
	return found, nil
}

// require gets the module in a new module, and builds its commands and a program with all its libraries there.
func (c *Copy) require(ctx context.Context, module *Module, packages packages) error {
	dir := filepath.Join(c.temp, "consumers", module.Dir, "consumer")
	if err := writeConsumer(dir, module, packages.libraries); err != nil {
		return err
	}
	tool := c.tool.adding()
	if err := tool.run(ctx, dir, "get", module.Path+"@"+c.version); err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	return tool.run(ctx, dir, slices.Concat([]string{"build", "-o", bin, "."}, packages.commands)...)
}

// writeConsumer writes a module with a program that imports all of libraries.
func writeConsumer(dir string, module *Module, libraries []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("module example.com/consumer\n\ngo %s\n", module.file.Go.Version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\n")
	for _, path := range libraries {
		fmt.Fprintf(&program, "import _ %q\n", path)
	}
	program.WriteString("\nfunc main() {}\n")
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o644)
}

// install installs the commands at the version, from outside of any module.
func (c *Copy) install(ctx context.Context, commands []string) error {
	if len(commands) == 0 {
		return nil
	}
	bin := filepath.Join(c.temp, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	args := []string{"install"}
	for _, path := range commands {
		args = append(args, path+"@"+c.version)
	}
	return c.tool.with("GOBIN="+bin).run(ctx, bin, args...)
}
