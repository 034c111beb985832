package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// demo is the default project. Here it is part of this module and tested with it; unpacked into a state directory it
// is a module of its own, independent of the files around it.
//
//go:embed demo
var demo embed.FS

const (
	demoDir    = "demo"
	demoModule = "module github.com/seed62658d38/watchdog/examples/autosession/demo\n\ngo 1.25.0\n"
)

// A project is a Go project that the phases work on.
type project struct {
	dir string
	env []string // nil is this process's
}

// findProject returns the project of a session: the user's, in the user's environment, or the built-in demo, in an
// environment in which Go uses no network and no file outside of it.
func findProject(dir state.Dir, path string) (project, error) {
	if path != "" {
		return project{dir: path}, nil
	}
	place := filepath.Join(dir.Path(), demoDir)
	if err := unpack(dir.Path(), place); err != nil {
		return project{}, fmt.Errorf("unpack the built-in project: %w", err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local")
	return project{place, env}, nil
}

func unpack(root, place string) error {
	err := fs.WalkDir(demo, demoDir, func(path string, entry fs.DirEntry, err error) error {
		switch target := filepath.Join(root, filepath.FromSlash(path)); {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		default:
			return copyDemo(path, target)
		}
	})
	if err != nil {
		return err
	}
	return state.WriteFile(filepath.Join(place, "go.mod"), []byte(demoModule))
}

func copyDemo(path, target string) error {
	content, err := demo.ReadFile(path)
	if err != nil {
		return err
	}
	return state.WriteFile(target, content)
}

// absolute returns the absolute path of a project.
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
