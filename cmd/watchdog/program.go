package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/internal/story"
)

// The exit statuses of the program itself, which are those of GNU timeout. A command that was run has its own.
const (
	exitStopped       = 124
	exitError         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

// A Program is the watchdog command with its standard files. It knows none of its commands: commandline.go does.
type Program struct {
	Stdin, Stdout, Stderr *os.File
}

// Common are the flags that every command has.
//
//nolint:lll // a tag cannot be broken
type Common struct {
	Store  string `placeholder:"URL"  env:"WATCHDOG_STORE"  help:"Where runs are kept: sqlite:PATH or postgres://HOST/DATABASE."`
	Config string `placeholder:"FILE" env:"WATCHDOG_CONFIG" help:"A file with limits. watchdog check explains them." type:"path"`
	JSON   bool   `name:"json"        env:"WATCHDOG_JSON"   help:"Print JSON for programs."`
}

// An exitStatus is the error of a command that has said what there was to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// fail says an error, if there is one, and returns the exit status.
func (p Program) fail(err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	p.say(err.Error())
	return exitError
}

// say prints one line of the program; joined errors stay on it.
func (p Program) say(text string) {
	_, _ = fmt.Fprintln(p.Stderr, "watchdog: "+strings.ReplaceAll(text, "\n", "; "))
}

// failEach says each of the joined errors on a line of its own, and returns the exit status.
func (p Program) failEach(err error) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return err
	}
	for _, one := range many.Unwrap() {
		p.say(one.Error())
	}
	return exitStatus(exitError)
}

// note says something on standard error that is for people only.
func (p Program) note(common *Common, text string) {
	if !common.JSON {
		_, _ = fmt.Fprintln(p.Stderr, text)
	}
}

func (p Program) logger(asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn}
	if asJSON {
		return slog.New(slog.NewJSONHandler(p.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(p.Stderr, options))
}

func (p Program) withStore(
	ctx context.Context, common *Common, use stores.Use, work func(stores.Database) error,
) error {
	db, err := stores.Open(ctx, common.Store, use, p.logger(common.JSON))
	if err != nil {
		return err
	}
	return errors.Join(work(db), db.Close())
}

// line is a command line about a run in the store, as a person pastes it into a shell.
func (c *Common) line(command, id string) string {
	return story.Next{Command: c.inStore(story.CommandLine(command, id))}.Line()
}

// inStore has a command line of this program name the store, unless it has that from the environment, too.
func (c *Common) inStore(words []string) []string {
	if len(words) == 0 || os.Getenv("WATCHDOG_STORE") == c.Store {
		return words
	}
	return slices.Insert(slices.Clone(words), 2, "--store", stores.WithoutPassword(c.Store))
}
