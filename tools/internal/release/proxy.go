package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func fileURL(dir string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
}

// serve fills a directory with the files of a module proxy, which the go command reads through a file URL.
func (m *Modules) serve(ctx context.Context, dir, version string) error {
	files, err := m.tracked(ctx)
	if err != nil {
		return err
	}
	for _, module := range m.All {
		if err := m.publish(dir, module, version, files); err != nil {
			return err
		}
	}
	return nil
}

// publish serves a module. The zip is that which a proxy makes of a tag: without nested modules, and with the license
// of the repository.
func (m *Modules) publish(proxy string, of *Module, version string, files []string) error {
	escaped, err := module.EscapePath(of.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	released := module.Version{Path: of.Path, Version: version}
	if err := zip.Create(&text, released, m.filesOf(of, files)); err != nil {
		return err
	}
	mod, err := os.ReadFile(of.file.Syntax.Name)
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	var errs []error
	for name, content := range map[string][]byte{
		version + ".zip": text.Bytes(), version + ".mod": mod,
		version + ".info": []byte(info), "list": []byte(version + "\n"),
	} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	return errors.Join(errs...)
}

// tracked are the files that git tracks, and those that it does not ignore, relative to the root. A file that was
// deleted but is still tracked is none, and neither is a symbolic link, which no zip of a module has.
func (m *Modules) tracked(ctx context.Context) (files []string, err error) {
	// A clone that CI works on may belong to another user. Git refuses it, unless it is told that this is safe.
	cmd := exec.CommandContext(ctx, "git", "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = m.root, &stderr
	names, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(m.root, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files, nil
}

// filesOf are those of a module.
func (m *Modules) filesOf(of *Module, files []string) (own []zip.File) {
	tops := map[string]bool{".": true}
	for _, name := range files {
		tops[path.Dir(name)] = tops[path.Dir(name)] || path.Base(name) == "go.mod"
	}
	license := "LICENSE"
	for _, name := range files {
		top := path.Dir(name)
		for !tops[top] {
			top = path.Dir(top)
		}
		if top != of.Dir {
			continue
		}
		file := zipped{path: strings.TrimPrefix(name, of.Dir+"/"), name: filepath.Join(m.root, name)}
		own = append(own, file)
		if file.path == license {
			license = ""
		}
	}
	if license != "" {
		own = append(own, zipped{path: license, name: filepath.Join(m.root, license)})
	}
	return own
}

// A zipped is a file in the zip of a module.
type zipped struct{ path, name string }

func (z zipped) Path() string                 { return z.path }
func (z zipped) Lstat() (fs.FileInfo, error)  { return os.Lstat(z.name) }
func (z zipped) Open() (io.ReadCloser, error) { return os.Open(z.name) }
