package main

import (
	"io"

	"github.com/alecthomas/kong"
)

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
	text := map[string]func(*kong.Application) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := io.WriteString(p.Stdout, text(model))
	return err
}
