package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// shipped is the project that is worked on where the user names none. It is a part of this module, so that it is built and
// tested with it, and a module of its own once it lies in a state directory, so that nothing around it matters.
//
//go:embed demo
var shipped embed.FS

const (
	shippedDir    = "demo"
	shippedModule = "module github.com/seed62658d38/watchdog/examples/autosession/demo\n\ngo 1.25.0\n"
)

// A project is what the phases work on.
type project struct {
	dir string
	env []string // nil is the environment of this process
}

// findProject returns the project of a session: the user's own, in the user's environment, or the one that is shipped,
// in one in which Go needs neither a network nor anything that lies around it.
func findProject(dir state.Dir, path string) (project, error) {
	if path != "" {
		return project{dir: path}, nil
	}
	place := filepath.Join(dir.Path(), shippedDir)
	if err := unpack(dir.Path(), place); err != nil {
		return project{}, fmt.Errorf("unpack the shipped project: %w", err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local")
	return project{place, env}, nil
}

func unpack(root, place string) error {
	err := fs.WalkDir(shipped, shippedDir, func(path string, entry fs.DirEntry, err error) error {
		switch target := filepath.Join(root, filepath.FromSlash(path)); {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		default:
			return copyShipped(path, target)
		}
	})
	if err != nil {
		return err
	}
	return state.WriteFile(filepath.Join(place, "go.mod"), []byte(shippedModule))
}

func copyShipped(path, target string) error {
	content, err := shipped.ReadFile(path)
	if err != nil {
		return err
	}
	return state.WriteFile(target, content)
}

// absolute is the path of a project that the user named, so that it means the same from everywhere.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("find project: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("find project: %s is not a directory", path)
	}
	return filepath.Abs(path)
}
