package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/config"
)

// helpOptions are how help looks.
var helpOptions = kong.HelpOptions{
	Compact: true, FlagsLast: true, WrapUpperBound: 100, ValueFormatter: kong.DefaultHelpValueFormatter,
}

type helpCmd struct {
	Command string `arg:"" optional:"" help:"The command."`
}

// Help is the end of the command's help.
func (helpCmd) Help() string {
	return `Prints the help of a command with all of its flags. The --help of run leaves out
those that few need, and its details.

Examples:
  watchdog help
  watchdog help run`
}

// Run prints the help.
func (c helpCmd) Run(parser *kong.Kong) error {
	var words []string
	if c.Command != "" {
		words = []string{c.Command}
	}
	of, err := kong.Trace(parser, words)
	if err != nil {
		return err
	}
	node := of.Selected()
	switch {
	case node != nil:
		node.Detail = detail(node)
	case c.Command != "":
		if instead, gone := config.Retired("command", c.Command); gone {
			return fmt.Errorf("%s is gone; %s", c.Command, instead)
		}
		return fmt.Errorf("there is no command %q; watchdog --help lists those that there are", c.Command)
	}
	return kong.DefaultHelpPrinter(helpOptions, of)
}

// printHelp prints what --help says. Of a command with flags that are rare these are left out, and so are all but the
// first sentences of the others.
func printHelp(options kong.HelpOptions, of *kong.Context) error {
	if node := of.Selected(); node != nil && detail(node) != node.Detail {
		for _, level := range node.AllFlags(true) {
			for _, flag := range level {
				flag.Hidden = flag.Tag.Has("rare")
				sentence, _, _ := strings.Cut(strings.ReplaceAll(flag.Help, "\n", " "), ". ")
				flag.Help = strings.TrimSuffix(sentence, ".") + "."
			}
		}
	}
	return kong.DefaultHelpPrinter(options, of)
}

// detail is all that there is to say of a command.
func detail(node *kong.Node) string {
	if more, has := reflect.TypeAssert[interface{ More() string }](node.Target); has {
		return node.Detail + "\n\n" + more.More()
	}
	return node.Detail
}

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
