package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// A Config holds the limits that a file and the environment set. The zero value is the default of every limit. It is
// not safe for use while another goroutine changes it.
type Config struct {
	// Budget is ready for [watchdog.New]. A limit that was not set is its zero value, which means its default; one that
	// was set to 0 is switched off.
	Budget watchdog.Budget
	// Kinds classify the host's own kinds of event, ready for [watchdog.New].
	Kinds watchdog.Kinds
	// Tick is the limit of a bounded call.
	Tick Tick
	// Stall says when a command is stuck, ready for the host to add what a file cannot say, such as Step. Its Probe is nil where there is none.
	Stall stall.Config
	// Sweep says when sessions in a database are cancelled, ready for the host to add what a file cannot say, such as a StopHook.
	Sweep sweep.Config

	unrun   stall.Probe       // what was read about a probe, until it is known that there is one
	sources map[string]source // by the path of the key; a key that is missing has its default
}

// Load reads the limits from the YAML file at path and then from the environment, which overrides the file. An empty
// path means no file. Everything wrong in either is reported together, each part as an [*Error], first the file's in
// the order of its lines. A file that cannot be read is an error of the operating system, such as [os.ErrNotExist].
// Load returns no Config together with an error.
func Load(path string, environment Lookup) (*Config, error) {
	if path == "" {
		return Parse("", nil, environment)
	}
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("load limits: %w", err)
	}
	return Parse(path, text, environment)
}

// maxText is more than any file of limits needs, and little enough to read from whatever a path leads to.
const maxText = 1 << 20

func readFile(path string) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, maxText+1))
}

// A Tick holds the limits of a [github.com/seed62658d38/watchdog/bound.Call], whose fields have the same names. The zero value of each is its default.
type Tick struct {
	// Limit is how long a call may take, from [github.com/seed62658d38/watchdog/bound.MinTick] to [github.com/seed62658d38/watchdog/bound.MaxTick]. Zero means [github.com/seed62658d38/watchdog/bound.DefaultTick].
	Limit time.Duration
	// Grace is how long it then has to return, at most Limit. Zero means [github.com/seed62658d38/watchdog/bound.DefaultGrace].
	Grace time.Duration
}

// Parse is [Load] for a text that is in memory; name stands for its file in errors and sources.
func Parse(name string, text []byte, environment Lookup) (*Config, error) {
	c := &Config{sources: map[string]source{}}
	faults := append(c.readText(name, text), c.readEnvironment(environment)...)
	if len(faults) == 0 {
		faults = c.check()
	}
	if len(faults) > 0 {
		return nil, join(faults)
	}
	c.adoptProbe()
	return c, nil
}
