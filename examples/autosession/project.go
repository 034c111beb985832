package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
)

// demo is the default project. Here it is part of this module and tested with it; a copy beside a session's file is a
// module of its own, independent of the files around it.
//
//go:embed demo
var demo embed.FS

const demoModule = "module github.com/seed62658d38/watchdog/examples/autosession/demo\n\ngo 1.25.0\n"

// A project is a Go project that the phases work on, and the environment of their commands.
type project struct {
	dir string
	env []string
}

// findProject returns the project of the session: the user's, in the user's environment, or a copy of the built-in
// demo, in an environment in which Go uses no network and no file outside of it.
func (s *session) findProject() (project, error) {
	if s.kept.Project != "" {
		return project{s.kept.Project, os.Environ()}, nil
	}
	place := filepath.Join(s.dir.Session(s.kept.ID), "demo")
	err := os.RemoveAll(place)
	if err == nil {
		err = os.CopyFS(filepath.Dir(place), demo)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(place, "go.mod"), []byte(demoModule), 0o600)
	}
	if err != nil {
		return project{}, fmt.Errorf("unpack the built-in project: %w", err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local")
	return project{place, env}, nil
}

// absolute returns the absolute path of a user's project.
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
