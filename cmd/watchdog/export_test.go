package main

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/stall"
)

// Main runs the program in the test binary.
func Main() { main() }

// What is tested apart from a whole program.
var (
	FilledID = filledID
)

// A Signals has what a run does at signals: how often it ends the command, and by which signals this program is killed.
type Signals struct {
	Ended  atomic.Int32
	Killed atomic.Int32 // the last
}

// Heed heeds the signals until stopped ends.
func (s *Signals) Heed(stopped context.Context, received <-chan os.Signal, shared bool) {
	(&signals{came: make(chan struct{})}).heed(stopped, received, heard{shared: func() bool { return shared }},
		func(syscall.Signal) { s.Ended.Add(1) }, func(sig syscall.Signal) { s.Killed.Store(int32(sig)) })
}

// SignalOf returns the signal that is taken for the end of a command that ended by one, if this program gets what came
// at received.
func SignalOf(
	stopped context.Context, received <-chan os.Signal, shared bool, ended syscall.Signal,
) syscall.Signal {
	s := &signals{shared: func() bool { return shared }, came: make(chan struct{})}
	go s.heed(stopped, received, heard{shared: func() bool { return shared }}, func(syscall.Signal) {}, func(syscall.Signal) {})
	return s.got(&stall.Result{Signal: ended})
}

// Ago is for tests of the text.
var Ago = ago

// Model is the model of the program's command line.
func Model() *kong.Application {
	parser, err := Program{}.parser(&commandLine{})
	if err != nil {
		panic(err)
	}
	return parser.Model
}

// ParseRun parses a command line by the model of run alone, and by that of all commands.
func ParseRun(args []string) (alone, ofAll any, err error) {
	var line runLine
	var all commandLine
	if _, err := (Program{}).parseAs(&line, args, kong.NoDefaultHelp()); err != nil {
		return nil, nil, err
	}
	_, err = Program{}.parseAs(&all, args)
	return line, runLine{all.Common, all.Run}, err
}
