// Package sbom lists what a Go program is linked from, with the licenses of it: the modules that its build information
// names, their license files in the module cache, and the standard library. It looks at no source file, so it finds no
// license that stands only in one.
package sbom

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// A Module is one that a program is linked from, or the standard library.
type Module struct {
	Path, Version string
	Sum           string // as in go.sum; empty for modules of the checkout and for the standard library
	Licenses      []License
}

// A License is a license file of a module.
type License struct {
	File string   // its name
	Text string   // all of it
	IDs  []string // the SPDX identifiers of the licenses in it, sorted; none for a grant of patents or a notice
}

// Folders says where the license files are.
type Folders struct {
	Cache    string // the module cache
	Goroot   string // the Go distribution
	Checkout string // the root of our own modules, which share its license
}

// Modules returns what the program at path is linked from: its own module first, the others by path, the standard
// library last. It fails if the file is no Go program, or if a module has no license file that is known.
func Modules(path string, folders Folders) ([]Module, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the build information of %s: %w", path, err)
	}
	slices.SortFunc(info.Deps, func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	own := strings.TrimSuffix(info.Main.Path, "/cmd/"+filepath.Base(info.Main.Path))
	var modules []Module
	var unknown []error
	add := func(m Module, folder string) {
		m.Licenses, err = licensesIn(folder)
		if err != nil {
			unknown = append(unknown, fmt.Errorf("%s: %w", m.Path, err))
		}
		modules = append(modules, m)
	}
	for _, dep := range slices.Concat([]*debug.Module{&info.Main}, info.Deps) {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		folder := folders.Checkout
		if dep.Path != own && !strings.HasPrefix(dep.Path, own+"/") {
			if folder, err = folderIn(folders.Cache, dep); err != nil {
				return nil, err
			}
		}
		add(Module{Path: dep.Path, Version: dep.Version, Sum: dep.Sum}, folder)
	}
	add(Module{Path: "std", Version: info.GoVersion}, folders.Goroot)
	return modules, errors.Join(unknown...)
}

// folderIn returns the folder of a module in the module cache.
func folderIn(cache string, m *debug.Module) (string, error) {
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return "", fmt.Errorf("module %s: %w", m.Path, err)
	}
	return filepath.Join(cache, filepath.FromSlash(path)+"@"+version), nil
}

var licenseFile = regexp.MustCompile(`^(?i:licen[cs]e|copying|notice|patents)([.-].*)?$`)

// patents is what licensecheck calls Google's grant of patents. SPDX has no identifier for it.
const patents = "GooglePatentsFile"

var errNoLicense = errors.New("no license that is known")

// licensesIn reads the license files of a folder. One of them must be a license that is known by three quarters of it.
func licensesIn(folder string) ([]License, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%w; `go mod download` brings it", err)
	}
	var found []License
	known := false
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenseFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		license := License{File: entry.Name(), Text: string(text)}
		cover := licensecheck.Scan(text)
		for _, match := range cover.Match {
			if match.ID != patents {
				license.IDs = append(license.IDs, match.ID)
			}
		}
		slices.Sort(license.IDs)
		license.IDs = slices.Compact(license.IDs)
		known = known || len(license.IDs) > 0 && cover.Percent >= 75
		found = append(found, license)
	}
	if !known {
		return found, fmt.Errorf("%w in %s", errNoLicense, folder)
	}
	return found, nil
}
