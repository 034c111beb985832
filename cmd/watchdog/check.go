package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/config"
)

type checkCmd struct {
	File   string `arg:"" optional:"" help:"The configuration file; that of --config without it."`
	Set    bool   `help:"Show only what is set, and no defaults."`
	Schema bool   `help:"Print the JSON schema of such a file, for editors, and check nothing."`
}

// Help is the rest of the command's help.
func (checkCmd) Help() string {
	return `Reads the configuration as a host does, with the environment over it, and prints
each limit with its value and where that comes from, and how long it takes at
worst from the last sign of life of a session to its cancel. It writes nothing.
If something in it is wrong, each error is a line with its place, and the exit
status is 125.

Examples:
  watchdog check watchdog.yaml
  watchdog check --set --config watchdog.yaml
  WATCHDOG_IDLE_TIMEOUT_SECONDS=60 watchdog check --json watchdog.yaml`
}

// A checked configuration is what check prints as JSON.
type checked struct {
	File     string         `json:"file,omitempty"`
	Disabled bool           `json:"disabled"`
	Settings []checkedLimit `json:"settings"`
	Steps    []string       `json:"steps,omitempty"`
	Worst    string         `json:"worst_time"`
	Unread   bool           `json:"nothing_in_file,omitempty"` // no line of the file is a setting
}

type checkedLimit struct {
	Key      string `json:"key"`
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Allowed  string `json:"allowed"`
}

// Run prints the limits in force.
func (c checkCmd) Run(p Program, common *Common, model *kong.Application) error {
	if c.Schema {
		_, err := p.Stdout.Write(config.Schema())
		return err
	}
	if c.File != "" && common.Config != "" {
		return fmt.Errorf("there are two files, %q and --config %q; name one", c.File, common.Config)
	}
	if c.File != "" {
		common.Config = c.File
	}
	limits, err := common.limits(model)
	if err != nil {
		return p.failEach(err)
	}
	all := c.of(limits)
	all.File = common.Config
	// A variable can hide the one setting of a file.
	all.Unread = all.File != "" && len(all.Steps) == 0 && !slices.ContainsFunc(limits.Limits(), isSet)
	if common.JSON {
		return term.PrintJSON(p.Stdout, all)
	}
	return all.print(p.Stdout)
}

func isSet(s config.Setting) bool { return s.Source != "default" }

func (c checkCmd) of(limits *config.Config) checked {
	all := checked{
		Disabled: limits.Disabled, Settings: []checkedLimit{}, Steps: limits.Steps(), Worst: limits.WorstTime(),
	}
	for _, s := range limits.Limits() {
		if !c.Set || isSet(s) {
			all.Settings = append(all.Settings, checkedLimit{s.Key, s.Variable, s.Value, s.Source, s.Allowed})
		}
	}
	return all
}

func (c checked) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range c.Settings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	err := table.Flush()
	if c.Disabled {
		_, _ = fmt.Fprintln(out, "\nall guards are off: runtime_controls.disabled")
	}
	if c.Unread {
		_, _ = fmt.Fprintf(out, "\nnothing in %s is a setting: the blocks are runtime_controls, stall and sweep\n", c.File)
	}
	_, line := fmt.Fprintf(out, "\n%s\n", c.Worst)
	return errors.Join(err, line)
}
