package release

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A proxy is a directory with the files of a module proxy. The go command reads it through a file URL.
type proxy struct {
	dir  string
	sums []string // of all modules served, as lines of a go.sum
}

func (p *proxy) url() string { return fileURL(p.dir) }

func fileURL(dir string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
}

// publish serves a module as it is in a state of the tree. The zip is that which a proxy makes of a tag: without nested
// modules, and with the license of the repository.
func (p *proxy) publish(tree *tree, state string, m *Module, version string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	base := filepath.Join(dir, version)
	if err := writeZip(base+".zip", tree, state, m, version); err != nil {
		return err
	}
	modFile, err := os.ReadFile(filepath.Join(tree.dir, m.Dir, "go.mod"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".mod", modFile, 0o644); err != nil {
		return err
	}
	lines, err := sumLines(m.Path, version, base+".zip", base+".mod")
	if err != nil {
		return err
	}
	p.sums = append(p.sums, lines...)
	return writeVersions(dir, version)
}

// writeVersions writes the list of versions, which is this one, and its time.
func writeVersions(dir, version string) error {
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(dir, version+".info"), []byte(info), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644)
}

func writeZip(name string, tree *tree, state string, m *Module, version string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	subdir := m.Dir
	if subdir == "." {
		subdir = ""
	}
	released := module.Version{Path: m.Path, Version: version}
	if err := zip.CreateFromVCS(file, released, tree.dir, state, subdir); err != nil {
		return err
	}
	return file.Close()
}
