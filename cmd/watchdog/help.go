package main

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
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
		node.Detail = detailOf(node)
	case c.Command != "":
		return fmt.Errorf("there is no command %q; watchdog --help lists those that there are", c.Command)
	}
	return kong.DefaultHelpPrinter(helpOptions, of)
}

// detailOf is all that there is to say of a command.
func detailOf(node *kong.Node) string {
	if more, has := reflect.TypeAssert[interface{ More() string }](node.Target); has {
		return node.Detail + "\n\n" + more.More()
	}
	return node.Detail
}

// printHelp prints what --help says. Of a command with flags that are rare these are left out, and so are all but the
// first sentences of the others.
func printHelp(options kong.HelpOptions, of *kong.Context) error {
	if node := of.Selected(); node != nil && detailOf(node) != node.Detail {
		for _, level := range node.AllFlags(true) {
			for _, flag := range level {
				flag.Hidden = flag.Tag.Has("rare")
				flag.Help = firstSentence(flag.Help) + "."
			}
		}
	}
	return kong.DefaultHelpPrinter(options, of)
}
