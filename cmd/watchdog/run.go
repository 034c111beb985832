package main

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
)

// Help is the rest of the command's help.
func (runCmd) Help() string {
	return `When it is stuck, one line on standard error says why. Without a limit only what
it left in the background is ended.

Examples:
  watchdog run --no-output 5m -- make test
  watchdog run --wall-clock 1h --artifacts state -- ./nightly.sh
  watchdog run --store sqlite:runs.db --id nightly-{time} -- ./job

Exit status: the command's own, or as of GNU timeout 124 for a stop, 137 if that
took SIGKILL, 125 for an error of this program, 126 and 127 for a command that
cannot be executed or found, and 128+N for signal N.

watchdog help run lists the other flags, and says all that there is to know.`
}

// More is what only watchdog help says.
func (runCmd) More() string {
	return `The command has the standard files of this program.

More examples:
  watchdog run --probe ./state.sh --probe-interval 30s -- ./deploy
  watchdog run --store sqlite:runs.db --id weekly --wall-clock 1h -- ./job
  watchdog why --store sqlite:runs.db weekly

A limit is --no-output, --wall-clock, --probe or --terminal.

Configuration: the stall block of the --config file and the variables
WATCHDOG_STALL_... are read as watchdog check explains them, and so is the wall
clock of its sessions, if it is set, and with --store sweep.keeper. Flags win. In
a file with the steps of a workflow, --step names the step whose settings count.

Nothing is written but the files of --artifacts, and the run with --store: while
it lives, watchdog sessions and the page show it, and a sweeper cancels it if
this program is killed. In its --id, {time} is the time in UTC, such as
20261127T043000Z, and {host} the name of the machine. A run whose command
succeeded is complete: its --id starts no other command before watchdog resume.
One that failed or was stopped is resumed in a fresh window, which is said in one
line. One that is live elsewhere is an error; to find out can take some seconds.
If another process ends the run, with watchdog complete for one, the command is
ended with status 124.

Signals: SIGINT, SIGTERM and SIGHUP end the command as if it were stuck; a
second one ends this program and the command at once. On a terminal Ctrl-C
reaches the command itself. SIGQUIT is passed on.

The terminal: where --no-output and the like listen, the command has a terminal
of its own in place of this one, so that it prints as it would alone. That is one
stream for both outputs, and ends lines with CR LF. Ctrl-Z stops the command and
this program, and that time is no silence. With --no-tty, and with
--keep-background, it is a pipe.

A line that shows the time is on the terminal while the command's output goes
elsewhere: while standard output and standard error are no terminals and
standard input is one.`
}

// Run runs the command.
func (c *runCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	words := c.words()
	if len(words) == 0 {
		return errors.New("the command is missing; write it after the flags: watchdog run --no-output 5m -- make test")
	}
	g, err := c.config(common, model)
	if err != nil {
		return err
	}
	record, err := c.openRecord(ctx, p, common, g)
	if err != nil {
		return err
	}
	cfg := &g.command
	cfg.TTY = p.hasTerminal()
	set(&cfg.TTY, c.TTY)
	ctx, signals := receive(ctx, p.sharesTerminal(cfg))
	defer signals.stop()
	cfg.Forward, cfg.Logger = signals.forwarded, p.commandLogger()
	defer term.ShowTime(p.Stdin, p.Stdout, p.Stderr, cfg.WallClock)()
	ctx, guarded, leave := record.guard(ctx, *cfg)
	defer leave()
	cmd := p.command(words)
	result, err := signals.run(ctx, cmd, guarded)
	e := ending{
		program: words[0], result: result, err: err, signal: signals.got(result), record: record,
		common: common, cfg: cfg,
	}
	_ = errors.As(err, &e.stop) // nil if it is none
	e.recordErr = record.close(&e)
	return p.report(&e)
}

// commandLogger is the log of a command: what has to be known while it runs, because the last line reports the rest.
func (p Program) commandLogger() *slog.Logger { return slog.New(early{slog.DiscardHandler, p}) }

// early says that an output is the file itself, and drops all else.
type early struct {
	slog.Handler
	program Program
}

// Enabled implements [slog.Handler].
func (early) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (e early) Handle(_ context.Context, record slog.Record) error {
	if strings.HasPrefix(record.Message, "stall sentinel watches a file") {
		e.program.say("the command has the file itself as output: what others write to it counts as its own")
	}
	return nil
}

// words are the command and its arguments, without the -- before them, which kong keeps.
func (c *runCmd) words() []string {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		return c.Command[1:]
	}
	return c.Command
}

func (p Program) command(words []string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...) //nolint:noctx // stall.Run takes the context
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	return cmd
}
