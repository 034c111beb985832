package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/config"
)

// limits reads the configuration file and the environment, in which the variables given, those of flags, win. The
// program's own variables, such as WATCHDOG_STORE, are no limits, and not taken for misspelt ones.
func (c *Common) limits(model *kong.Application, flags ...string) (*config.Config, error) {
	left := ownVariables(model.Node)
	for _, flag := range flags {
		left = append(left, nameOf(flag))
	}
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.Contains(left, nameOf(variable))
	})
	limits, err := config.Loader{Environment: append(environment, flags...)}.Load(c.Config)
	var wrong *config.Error
	if errors.As(err, &wrong) && slices.ContainsFunc(flags, func(f string) bool { return nameOf(f) == wrong.Variable }) {
		said := *wrong
		said.Variable, said.Key = "", ""
		return nil, fmt.Errorf("--%s: %w", webhookFlags[wrong.Variable], &said)
	}
	return limits, err
}

// nameOf is the name of a variable of the environment.
func nameOf(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
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

// ofLimits returns a func that reports whether a variable may be one of config's, which are not the program's own.
func ofLimits(model *kong.Application) func(variable string) bool {
	own := ownVariables(model.Node)
	return func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "WATCHDOG_") && !slices.Contains(own, name)
	}
}
