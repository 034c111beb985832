package config

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// A Config holds the limits from a file and the environment. The zero value has the default of every limit. No
// goroutine may change a Config while another uses it.
type Config struct {
	// Disabled is for the [watchdog.Config] of a run: an operator has switched all guards off. Then Stall and Sweep are
	// disabled already. Budget, Loop, Kinds and Tick are as they would be otherwise.
	Disabled bool
	// Budget is ready for [watchdog.New]. A limit that was not set is zero, which means its default; a limit that was
	// set to 0 is off.
	Budget watchdog.Budget
	// Scopes are ready for [watchdog.New], beside those that the host has for each run, such as its tenant's.
	Scopes []watchdog.SharedSpend
	// Loop says when a run repeats itself, ready for [watchdog.New]. What was set to 0 is off.
	Loop loop.Config
	// Kinds classifies the host's own kinds of event, ready for [watchdog.New].
	Kinds watchdog.Kinds
	// Tick is the limit of a bounded call.
	Tick Tick
	// Stall is ready for [stall.Run] once the host has added what a file cannot hold, such as Step. Its Probe and
	// its AlsoEnd are nil without a command.
	Stall stall.Config
	// Sweep is ready for [sweep.New] once the host has added what a file cannot hold, such as a StopHook.
	// Its Resume has no Start and its Alert no Func: the host adds them where Max and Within are set.
	Sweep sweep.Config
	// Keeper is ready for [session.NewKeeper] once the host has added its Store. Without a threshold of its own it has
	// the one of Sweep; zero if that is not set either.
	Keeper session.KeeperConfig
	// Notify is ready for [notify.New] once the host has added Secrets, or a SecretFile is set. Its URL is empty without
	// a webhook: then the host makes no sender.
	Notify notify.Config

	unusedProbe     stall.Probe   // the probe's settings, until a command is read
	unusedAlsoEnd   stall.AlsoEnd // the same of what also ends
	graces          graces        // of an ending
	extras          extras        // of a step
	workflow        workflow
	scopes          []scope              // as they are read
	shared          watchdog.SharedSpend // of one of them, but its limits
	reserveCurrency string               // of the reserve of a cost
	prefix          string               // of the variables, if it is not the default one
	sources         map[string]source    // by key path; a missing key has its default
}

// Load reads the limits from the YAML file at path and then from the environment, which overrides the file. An empty
// path means no file. Load reports the errors together, each as an [*Error], those of the file first, in the order of
// its lines; after twenty it only counts them. If it cannot read the file it wraps the error of the operating system,
// such as [os.ErrNotExist]. With an error it returns no Config. A [Loader] has more choices.
func Load(path string, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Load(path)
}

// maxText limits what Load reads. No file of limits is larger.
const maxText = 1 << 20

func readFile(path string) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, maxText+1))
}

// A Tick holds the limits of a [bound.Call]. The zero value of each is its default.
type Tick struct {
	// Limit is how long a call may take, from [bound.MinTick] to [bound.MaxTick]. Zero means [bound.DefaultTick].
	Limit time.Duration
	// Grace is how long it may then take to return, at most Limit. Zero means [bound.DefaultGrace].
	Grace time.Duration
}

// Parse is [Load] for a text in memory; name is the name of the file in errors and sources.
func Parse(name string, text []byte, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Parse(name, text)
}
