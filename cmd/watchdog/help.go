package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/shells"
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
		node.Detail = shells.Detail(node)
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
	if node := of.Selected(); node != nil && shells.Detail(node) != node.Detail {
		for _, level := range node.AllFlags(true) {
			for _, flag := range level {
				flag.Hidden = flag.Tag.Has("rare")
				flag.Help = shells.FirstSentence(flag.Help) + "."
			}
		}
	}
	return kong.DefaultHelpPrinter(options, of)
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help is the end of the command's help.
func (completionCmd) Help() string {
	return `Prints a script that has a shell complete the commands, flags and values of this
program.

Examples:
  source <(watchdog completion bash)
  watchdog completion zsh > "${fpath[1]}/_watchdog"
  watchdog completion fish > ~/.config/fish/completions/watchdog.fish`
}

// Run prints the script.
func (c completionCmd) Run(p Program, model *kong.Application) error {
	text := map[string]func(*kong.Application) string{"bash": shells.Bash, "zsh": shells.Zsh, "fish": shells.Fish}[c.Shell]
	_, err := io.WriteString(p.Stdout, text(model))
	return err
}

type manCmd struct{}

// Help is the end of the command's help.
func (manCmd) Help() string {
	return `Prints the man page of this program.

Examples:
  watchdog man | man -l -
  watchdog man > /usr/local/share/man/man1/watchdog.1`
}

// Run prints the man page.
func (manCmd) Run(p Program, model *kong.Application) error {
	_, err := io.WriteString(p.Stdout, shells.Man(model))
	return err
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
