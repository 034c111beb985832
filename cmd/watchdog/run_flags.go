package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/stall"
)

type runCmd struct {
	runFlags

	Command []string `arg:"" optional:"" passthrough:"partial" help:"The command and its arguments, after --."`
}

// runFlags are the flags of run. One that is nil was not given.
//
//nolint:lll // a tag cannot be broken
type runFlags struct {
	NoOutput   *time.Duration        `group:"When it is stuck" placeholder:"TIME" help:"End it when it prints nothing for this long, such as 5m."`
	Activity   *stall.ActivitySource `group:"When it is stuck" rare:"" placeholder:"WHICH" enum:"output,stdout,stderr" help:"What --no-output listens to: output (both), stdout or stderr."`
	FileItself bool                  `group:"When it is stuck" rare:"" help:"Give it a file that its output goes to as it is: it can seek in it, and other writers of it count as its own. Else a pipe is in between."`
	WallClock  *time.Duration        `group:"When it is stuck" placeholder:"TIME" help:"End it after this long in any case."`
	Terminal   []string              `group:"When it is stuck" placeholder:"REGEXP" sep:"none" help:"End it when it prints a line that matches. Can be repeated."`

	Probe               string            `group:"The probe" placeholder:"CMD" help:"Run this in a shell at each interval. It prints the state as one JSON object; what stays the same is no progress."`
	ProbeInterval       *time.Duration    `group:"The probe" placeholder:"TIME" help:"From one probe to the next: 30s if not given."`
	ProbeTimeout        *time.Duration    `group:"The probe" rare:"" placeholder:"TIME" help:"How long one probe may take: 5s if not given."`
	StallThreshold      *int              `group:"The probe" placeholder:"N" help:"So many that saw the same end it: 3 if not given. They are in a row, and at least 2."`
	ProbeAnyExit        bool              `group:"The probe" rare:"" help:"Take the output of a probe that fails, too."`
	OnProbeError        *stall.ProbeError `group:"The probe" rare:"" placeholder:"WHAT" enum:"ignore,stall,terminal" help:"What several failed probes in a row mean: ignore (nothing, as if not given), stall or terminal."`
	ProbeErrorThreshold *int              `group:"The probe" rare:"" placeholder:"N" help:"How many these are: 3 if not given."`
	ProbePublish        bool              `group:"The probe" rare:"" help:"Write the reasons and the summary that a probe prints to the artifacts."`

	TTY            *bool             `group:"How it runs and ends" name:"tty" negatable:"" help:"Give it the terminal: as if given where there is one. Where its output is listened to, that is a terminal of its own. Only on Linux."`
	OnStall        *stall.TripAction `group:"How it runs and ends" rare:"" placeholder:"WHAT" enum:"interrupt,fail,ignore" help:"What to do without output or progress: interrupt (the signals in their order, as if not given), fail (SIGKILL at once) or ignore (only record it)."`
	OnTerminal     *stall.TripAction `group:"How it runs and ends" rare:"" placeholder:"WHAT" enum:"interrupt,fail,ignore" help:"The same after a line of --terminal, or a probe that says so."`
	Signal         *syscall.Signal   `group:"How it runs and ends" short:"s" placeholder:"SIGNAL" help:"The first signal: INT if not given. TERM and KILL follow, if it is not one of them."`
	GraceInt       *time.Duration    `group:"How it runs and ends" placeholder:"TIME" help:"The time after it: 10s if not given. There is none if that is TERM or KILL."`
	GraceTerm      *time.Duration    `group:"How it runs and ends" placeholder:"TIME" help:"The time after SIGTERM: 20s if not given."`
	AlsoEnd        string            `group:"How it runs and ends" placeholder:"CMD" help:"Run this in a shell after a stop. It ends what runs elsewhere, as in a container."`
	AlsoEndTimeout *time.Duration    `group:"How it runs and ends" rare:"" placeholder:"TIME" help:"How long that may take: 10s if not given."`
	KeepBackground bool              `group:"How it runs and ends" help:"Leave what runs on when it has ended by itself."`

	Artifacts         string `group:"What is kept" placeholder:"DIR" help:"Write files about a stop here, for watchdog why DIR."`
	Step              string `group:"What is kept" placeholder:"NAME" help:"Its name in files and events: command if not given. It names the step of the configuration file, too."`
	ID                string `group:"What is kept" name:"id" placeholder:"RUN" help:"The run's name; {time} and {host} in it are filled in. It is that in the store and the files, and random if not given."`
	CheckID           string `group:"What is kept" rare:"" placeholder:"TEXT" help:"Written to the files about a stop."`
	Workflow          string `group:"What is kept" rare:"" placeholder:"TEXT" help:"The same."`
	Iteration         int    `group:"What is kept" rare:"" placeholder:"N" help:"The same."`
	StepLog           string `group:"What is kept" rare:"" placeholder:"PATH" help:"The same: where a log of the command is."`
	FingerprintPrefix string `group:"What is kept" rare:"" placeholder:"TEXT" help:"Comes before the fingerprints of a stop, with a slash."`

	RecordTimeout *time.Duration `group:"What is kept" rare:"" placeholder:"TIME" help:"How long a store or a disk that hangs delays a signal: 5s if not given."`
}

// reads has kong read the values of a type with a func, which gets a word with a minus, too: it says what is wrong.
func reads[T any](read func(text string) (T, error)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(from *kong.DecodeContext, to reflect.Value) error {
		text, _ := from.Scan.Pop().Value.(string)
		value, err := read(text)
		if err == nil {
			to.Set(reflect.ValueOf(value))
		}
		return err
	}))
}

func readLength(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no length of time; write one such as 30s, 5m or 1h30m", text)
	}
	return d, nil
}

func readSignal(text string) (syscall.Signal, error) {
	read, problem := signame.Parse(text)
	if problem != "" {
		return 0, fmt.Errorf("%q %s; write one such as TERM, QUIT or HUP", text, problem)
	}
	return read, nil
}

// check refuses flags without effect, before anything is done.
func (f *runFlags) check(cfg *stall.Config) error {
	switch {
	case cfg.Probe == nil && f.ofProbe():
		return errors.New("--probe-..., --on-probe-error and --stall-threshold need --probe CMD")
	case cfg.AlsoEnd == nil && f.AlsoEndTimeout != nil:
		return errors.New("--also-end-timeout needs --also-end CMD")
	}
	return cmp.Or(f.checkSilence(cfg), f.checkValues())
}

func (f *runFlags) checkSilence(cfg *stall.Config) error {
	silence := f.NoOutput != nil || cfg.NoOutput != 0
	switch {
	case f.NoOutput != nil && *f.NoOutput == 0 && cfg.NoOutput == 0: // it can switch off what is configured
		return errors.New("--no-output 0 ends nothing: use a positive length of time, such as 5m, or leave it out")
	case f.Activity != nil && !silence:
		return errors.New("--activity needs --no-output TIME")
	case f.FileItself && !silence && cfg.Probe == nil:
		return errors.New("--file-itself needs --no-output TIME or --probe CMD: without them a file is given as it is")
	}
	return nil
}

// ofProbe reports whether a flag was given that only a probe heeds.
func (f *runFlags) ofProbe() bool {
	return f.ProbeInterval != nil || f.ProbeTimeout != nil || f.StallThreshold != nil || f.ProbeAnyExit ||
		f.OnProbeError != nil || f.ProbeErrorThreshold != nil || f.ProbePublish
}

// checkValues refuses values that the config would take for a default.
func (f *runFlags) checkValues() error {
	for _, flag := range []struct {
		name  string
		value *time.Duration
	}{
		{"--probe-interval", f.ProbeInterval}, {"--probe-timeout", f.ProbeTimeout},
		{"--also-end-timeout", f.AlsoEndTimeout}, {"--record-timeout", f.RecordTimeout},
	} {
		if flag.value != nil && *flag.value == 0 {
			return fmt.Errorf("%s 0: use a positive length of time, such as 10s", flag.name)
		}
	}
	if n := f.StallThreshold; n != nil && *n < 2 {
		return fmt.Errorf("--stall-threshold %d: use at least 2, because one probe alone shows no lack of change", *n)
	}
	if n := f.ProbeErrorThreshold; n != nil && *n < 1 {
		return fmt.Errorf("--probe-error-threshold %d: use at least 1", *n)
	}
	return nil
}

// set sets a field to a flag's value, if it was given.
func set[T any](field, flag *T) {
	if flag != nil {
		*field = *flag
	}
}
