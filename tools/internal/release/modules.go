// Package release sets the version of all modules of a repository, and proves before the release that they can be
// built, required and installed at that version.
//
// # The version
//
// All modules are released together, at one version, and require each other at that version. No module has a replace
// directive for another: users of a module do not see it, and the go command refuses to install a command from a module
// that has one. In the checkout, go.work replaces the version by directories. [Modules.Version] fails where this is not
// so.
//
// A module without commands may stand beside go.work, so that what it requires never meets what the others require: one
// in a folder of the root that replaces the root's module, and nothing else, by "../".
//
// # The proof
//
// [Modules.Build] and [Modules.Tidy] run the go command in each module with a go.mod that replaces the others by their
// folders, so that the version need not exist. [Modules.Check] uses them as others will: a module proxy in a directory
// serves a zip of each module, from the files of the checkout. The go command asks this proxy first, then the downloads
// in the module cache of the user, then the proxies of its environment. It uses a module cache of its own: an
// unreleased version never gets into that of the user, and an old state of it is never used here.
//
// The package makes no tags, and does not choose the version.
package release

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Module is one module of the repository.
type Module struct {
	Path string // the module path
	Dir  string // relative to the root, with slashes; "." for the module in the root

	file   *modfile.File
	beside bool // go.work, which does not use it
}

// Modules are the modules of go.work, and those beside it.
type Modules struct {
	All []*Module // each after those that it requires

	root string // the directory of go.work
	work *modfile.WorkFile
}

// Open reads go.work in root, and the go.mod of each module in it and beside it.
func Open(root string) (*Modules, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	m := &Modules{root: root, work: work}
	for _, use := range work.Use {
		module, err := m.read(path.Clean(filepath.ToSlash(use.Path)))
		if err != nil {
			return nil, err
		}
		m.All = append(m.All, module)
	}
	if err := m.readBeside(); err != nil {
		return nil, err
	}
	if err := m.checkPaths(); err != nil {
		return nil, err
	}
	return m, m.sort()
}

// readBeside reads the modules that go.work does not use.
func (m *Modules) readBeside() error {
	files, err := filepath.Glob(filepath.Join(m.root, "*", "go.mod"))
	if err != nil || m.main() == nil {
		return err
	}
	for _, file := range files {
		dir := filepath.Base(filepath.Dir(file))
		if slices.ContainsFunc(m.All, func(used *Module) bool { return used.Dir == dir }) {
			continue
		}
		module, err := m.read(dir)
		if err != nil {
			return err
		}
		if module.beside = m.replacesRoot(module); module.beside {
			m.All = append(m.All, module)
		}
	}
	return nil
}

// replacesRoot reports whether a module beside go.work replaces the root's, and no other of ours.
func (m *Modules) replacesRoot(module *Module) bool {
	replaced := m.replaced(module.file.Replace)
	return len(replaced) == 1 && replaced[0].Old.Path == m.main().Path && path.Clean(replaced[0].New.Path) == ".."
}

func (m *Modules) read(dir string) (*Module, error) {
	file, err := parse(filepath.Join(m.root, dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	return &Module{Path: file.Module.Mod.Path, Dir: dir, file: file}, nil
}

func parse(mod string) (*modfile.File, error) {
	text, err := os.ReadFile(mod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(mod, text, nil)
}

// checkPaths makes sure that a proxy finds each module. A proxy derives the directory and the tag from the path.
func (m *Modules) checkPaths() error {
	main := m.main()
	if main == nil {
		return fmt.Errorf("%s: no module in the root", m.work.Syntax.Name)
	}
	for _, module := range m.All {
		if want := path.Join(main.Path, module.Dir); module.Path != want {
			return fmt.Errorf("%s: module %s must be named %s, after its directory", module.file.Syntax.Name, module.Path, want)
		}
	}
	return nil
}

// main returns the module in the root.
func (m *Modules) main() *Module {
	return m.find(func(module *Module) bool { return module.Dir == "." })
}

// named returns the module with that path, or nil for one that is not ours.
func (m *Modules) named(path string) *Module {
	return m.find(func(module *Module) bool { return module.Path == path })
}

func (m *Modules) find(is func(*Module) bool) *Module {
	if i := slices.IndexFunc(m.All, is); i >= 0 {
		return m.All[i]
	}
	return nil
}

// requires returns the requirements of a module that are modules of this repository.
func (m *Modules) requires(module *Module) (own []modfile.Require) {
	for _, require := range module.file.Require {
		if m.named(require.Mod.Path) != nil {
			own = append(own, *require)
		}
	}
	return own
}

// sort puts each module after those that it requires, and otherwise by path.
func (m *Modules) sort() error {
	slices.SortFunc(m.All, func(a, b *Module) int { return cmp.Compare(a.Path, b.Path) })
	sorted := make([]*Module, 0, len(m.All))
	var visit func(module *Module, from []string) error
	visit = func(module *Module, from []string) error {
		if slices.Contains(sorted, module) {
			return nil
		}
		if slices.Contains(from, module.Path) {
			return fmt.Errorf("no order to release in: %s", strings.Join(append(from, module.Path), " requires "))
		}
		required := m.requires(module)
		slices.SortFunc(required, func(a, b modfile.Require) int { return cmp.Compare(a.Mod.Path, b.Mod.Path) })
		for _, require := range required {
			if err := visit(m.named(require.Mod.Path), append(from, module.Path)); err != nil {
				return err
			}
		}
		sorted = append(sorted, module)
		return nil
	}
	for _, module := range m.All {
		if err := visit(module, nil); err != nil {
			return err
		}
	}
	m.All = sorted
	return nil
}
