package config

import (
	"fmt"
	"os"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// Load reads the limits from the YAML file at path and then from the environment, which overrides the file. An empty
// path means no file. Load reports the errors together, each as an [*Error], those of the file first, in the order of
// its lines; after twenty it only counts them. If it cannot read the file it wraps the error of the operating system,
// such as [os.ErrNotExist]. With an error it returns no Config. A [Loader] has more choices.
func Load(path string, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Load(path)
}

// Parse is [Load] for a text in memory; name is the name of the file in errors and sources.
func Parse(name string, text []byte, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Parse(name, text)
}

// A Loader is [Load] and [Parse] for a host with names of its own. The zero value reads as they do with a nil Lookup.
type Loader struct {
	// Prefix begins the name of every variable, such as OUROBOROS_. Empty means WATCHDOG_. Variables with another
	// prefix are not read.
	Prefix string
	// Environment lists the variables, as [os.Environ] does. Nil means those of the process. A variable that is not
	// one of ours but close to one is an error.
	Environment []string
	// LookupEnv finds the variables in place of Environment. It cannot list them, so a misspelt one goes unseen.
	LookupEnv Lookup
	// HostBlocks names blocks of the file that only the host reads, such as steps or watchdog. They are not searched
	// for what was meant to be ours.
	HostBlocks []string
}

// Load is the function [Load] with the Loader's names. It wraps [watchdog.ErrInvalid] if a field is wrong.
func (l Loader) Load(path string) (*Config, error) {
	if path == "" {
		return l.Parse("", nil)
	}
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("load limits: %w", err)
	}
	return l.Parse(path, text)
}

// Parse is the function [Parse] with the Loader's names. It wraps [watchdog.ErrInvalid] if a field is wrong.
func (l Loader) Parse(name string, text []byte) (*Config, error) {
	if problem := l.problem(); problem != "" {
		return nil, fmt.Errorf("load limits: %w: %s", watchdog.ErrInvalid, problem)
	}
	c := &Config{prefix: l.Prefix, sources: map[string]source{}}
	faults := append(c.readText(name, text, l.HostBlocks), c.readEnvironment(l.environment())...)
	if len(faults) == 0 {
		faults = c.check()
	}
	if len(faults) > 0 {
		return nil, join(faults)
	}
	c.adoptStall()
	if !keys.key(stalledPath).off(c) {
		c.Keeper.Threshold = c.Sweep.StalledThreshold
	}
	c.adoptScopes()
	if c.Disabled {
		c.Stall.Disabled, c.Sweep.Disabled = true, true
		c.sources[enabledPath] = c.sources[disabledPath]
	}
	return c, nil
}

// prefixOfVariables requires the underscore: without it, the first word of a variable would begin in the prefix.
var prefixOfVariables = formOf(`^[A-Za-z][A-Za-z0-9_]*_$`)

// problem returns which field is wrong.
func (l Loader) problem() string {
	problems := []when{
		{l.Prefix != "" && !prefixOfVariables().MatchString(l.Prefix), "Prefix " + shown(l.Prefix, maxShown) +
			" is not letters, digits and underscores with an underscore at the end"},
		{l.LookupEnv != nil && l.Environment != nil, "LookupEnv and Environment are both set; set one"},
	}
	for _, block := range l.HostBlocks {
		ours := slices.Contains(blockNames, block)
		problems = append(problems, when{ours, "HostBlocks has " + block + ", which is read here"})
	}
	return first(problems)
}

func (l Loader) environment() environment {
	switch {
	case l.LookupEnv != nil:
		return environment{lookup: l.LookupEnv}
	case l.Environment == nil:
		return environment{os.LookupEnv, listed(os.Environ()).names}
	}
	return listed(l.Environment)
}
