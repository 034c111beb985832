package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// A version is what a bug report has to name.
type version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// Help is the end of the command's help.
func (versionCmd) Help() string {
	return `Examples:
  watchdog version
  watchdog version --json`
}

// Run prints the version.
func (versionCmd) Run(p Program, common *Common) error {
	v := version{Version: "(devel)", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if common.JSON {
		return json.NewEncoder(p.Stdout).Encode(v)
	}
	_, err := fmt.Fprintf(p.Stdout, "watchdog %s, %s, %s\n", v.Version, v.Go, v.System)
	return err
}
