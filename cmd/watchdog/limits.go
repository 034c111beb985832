package main

import (
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/config"
)

// limits reads the configuration file and the environment. The program's own variables, such as WATCHDOG_STORE, are no
// limits, and not taken for misspelt ones.
func (c *Common) limits(model *kong.Application) (*config.Config, error) {
	own := ownVariables(model.Node)
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(own, name)
	})
	return config.Loader{Environment: environment}.Load(c.Config)
}

// ownVariables are the variables that stand for flags of a command and those below it.
func ownVariables(node *kong.Node) (names []string) {
	for _, flag := range node.Flags {
		names = append(names, flag.Envs...)
	}
	for _, child := range node.Children {
		names = append(names, ownVariables(child)...)
	}
	return names
}
