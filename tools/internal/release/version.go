package release

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// Version returns the version at which the modules require each other. It fails if there is more than one, if a module
// has a replace directive for another, or if go.work lacks one.
func (m *Modules) Version() (string, error) {
	version := ""
	agree := func(name, other, v string) error {
		if version == "" {
			version = v
		}
		if v != version {
			return fmt.Errorf("%s has %s %s, others are at %s: run make release", name, other, v, version)
		}
		return nil
	}
	var errs []error
	for _, module := range m.All {
		for _, require := range m.requires(module) {
			errs = append(errs, agree(module.file.Syntax.Name, require.Mod.Path, require.Mod.Version))
		}
		for _, replace := range m.wrong(module) {
			errs = append(errs, fmt.Errorf("%s replaces %s: only go.work may", module.file.Syntax.Name, replace.Old.Path))
		}
	}
	for _, replace := range m.replaced(m.work.Replace) {
		errs = append(errs, agree(m.work.Syntax.Name, replace.Old.Path, replace.Old.Version))
	}
	errs = append(errs, m.checkWork())
	return version, errors.Join(errs...)
}

// replaced returns the directives for modules of this repository.
func (m *Modules) replaced(directives []*modfile.Replace) []*modfile.Replace {
	var own []*modfile.Replace
	for _, replace := range directives {
		if m.named(replace.Old.Path) != nil {
			own = append(own, replace)
		}
	}
	return own
}

// wrong returns the directives of a module for others. One beside go.work has to have them.
func (m *Modules) wrong(module *Module) []*modfile.Replace {
	if module.beside {
		return nil
	}
	return m.replaced(module.file.Replace)
}

// checkWork makes sure that go.work replaces each module by its directory. The go command asks a registry for a
// requirement that is not replaced, even if go.work uses that module.
func (m *Modules) checkWork() error {
	dirs := make(map[string]string)
	for _, replace := range m.replaced(m.work.Replace) {
		dirs[replace.Old.Path] = path.Clean(replace.New.Path)
	}
	var errs []error
	for _, module := range m.All {
		if !module.beside && dirs[module.Path] != module.Dir {
			errs = append(errs, fmt.Errorf("%s does not replace %s by %s: run make release",
				m.work.Syntax.Name, module.Path, module.Dir))
		}
	}
	return errors.Join(errs...)
}

// SetVersion writes version to every requirement among the modules and to go.work. It fixes all that Version reports.
func (m *Modules) SetVersion(version string) error {
	if err := m.checkVersion(version); err != nil {
		return err
	}
	for _, module := range m.All {
		if err := m.setModule(module, version); err != nil {
			return err
		}
	}
	return m.setWork(version)
}

func (m *Modules) checkVersion(version string) error {
	if semver.Canonical(version) != version || module.IsPseudoVersion(version) {
		return fmt.Errorf("invalid version %q: want one like v1.2.3 or v1.2.3-rc.1", version)
	}
	return module.Check(m.main().Path, version) // from v2 on the path ends in the major version
}

func (m *Modules) setModule(module *Module, version string) error {
	file := module.file
	for _, require := range m.requires(module) {
		if err := file.AddRequire(require.Mod.Path, version); err != nil {
			return err
		}
	}
	for _, replace := range m.wrong(module) {
		if err := file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return err
		}
	}
	file.Cleanup()
	return os.WriteFile(file.Syntax.Name, modfile.Format(file.Syntax), 0o644)
}

func (m *Modules) setWork(version string) error {
	before := m.replaced(m.work.Replace)
	for _, module := range m.All {
		if module.beside {
			continue
		}
		dir := "./" + module.Dir
		if module.Dir == "." {
			dir = "."
		}
		if err := m.work.AddReplace(module.Path, version, dir, ""); err != nil {
			return err
		}
	}
	for _, replace := range before { // last, because AddReplace puts the new ones beside the old ones
		if replace.Old.Version == version {
			continue
		}
		if err := m.work.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return err
		}
	}
	m.work.Cleanup()
	return os.WriteFile(filepath.Join(m.root, "go.work"), modfile.Format(m.work.Syntax), 0o644)
}

// Tags returns the tags of a release in the order in which to push them: each after those of the modules that its
// module requires.
func (m *Modules) Tags(version string) (tags []string) {
	for _, module := range m.All {
		tags = append(tags, path.Join(module.Dir, version))
	}
	return tags
}
